//go:build race

package redact_test

// slack multiplies the limit on memory: what is allocated during a collection counts as live, and
// under the race detector a collection takes several times as long.
const slack = 2
