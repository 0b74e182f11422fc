//go:build !linux

package main

const startCapabilities, servingCapabilities = 0, 0

// limitCapabilities does nothing: only Linux has capabilities.
func limitCapabilities(uint64) error { return nil }
