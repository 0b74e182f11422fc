package process

// remedyFor names what the operator can do about an error of setting up.
func remedyFor(err error) (layer, remedy string) {
	return "", err.Error()
}
