//go:build !race

package confine

// slack multiplies the limits on memory and processor time; see slack_race.go.
const slack = 1
