package upstream_test

func alive(int) bool { return false }
