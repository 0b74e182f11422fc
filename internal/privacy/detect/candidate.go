package detect

// Types of internal candidates, which do not become findings of the same type: pending
// values under "name", by their context, and evidence for them.
const (
	nameInObject Type = "name in an object"
	nameInLine   Type = "name in a line"
	nameInRow    Type = "name in a row"
	personKey    Type = "key of a person"   // key in the record of a name, or of an enclosing object
	roleKey      Type = "key with persons"  // key of an enclosing object
	siblingName  Type = "name of a sibling" // name for which an enclosing key is evidence
	value        Type = "value of a person" // in a part of a stream that was already returned
)

func isPending(t Type) bool { return t == nameInObject || t == nameInLine || t == nameInRow }

func isInternal(f Finding) bool {
	return isPending(f.Type) || f.Type == personKey || f.Type == roleKey || f.Type == siblingName || f.Type == value
}

// isPersonal reports whether a value of this type is evidence that its record belongs
// to a person. Addresses and keys of machines are not.
func isPersonal(t Type) bool {
	switch t {
	case IPAddress, MACAddress, APIKey, JWT, PrivateKey, URLCredentials, Crypto, roleKey, siblingName, nameInObject, nameInLine, nameInRow:
		return false
	}
	return true
}

// bareNameScore is the score of a value under "name".
const bareNameScore = 0.5
