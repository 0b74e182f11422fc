//go:build race

package confine

// slack multiplies the limits on memory and processor time: the race detector needs several
// times as much of both.
const slack = 8
