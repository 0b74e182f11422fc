//go:build !race

package redact_test

// slack multiplies the limit on memory; see slack_race_test.go.
const slack = 1
