package clock

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are the units of ParseDuration that time.ParseDuration lacks. A day has 24 hours.
var units = map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// ParseDuration parses a time as people write it: weeks and days, such as 2w or 1d12h, before the
// units of time.ParseDuration. Settings, flags and arguments of tools use it, so that a time which one
// of them accepts is accepted by all.
func ParseDuration(text string) (time.Duration, error) {
	var sum time.Duration
	for rest := text; ; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		if digits == 0 || digits == len(rest) || units[rest[digits]] == 0 {
			if rest == "" && text != "" {
				return sum, nil
			}
			d, err := time.ParseDuration(rest)
			if err != nil || sum > 0 && (d < 0 || strings.HasPrefix(rest, "+") || d > math.MaxInt64-sum) {
				return 0, fmt.Errorf("invalid duration %q", text)
			}
			return sum + d, nil
		}
		n, err := strconv.ParseFloat(rest[:digits], 64)
		d := n * float64(units[rest[digits]])
		if err != nil || float64(sum)+d >= math.MaxInt64 {
			return 0, fmt.Errorf("invalid duration %q", text)
		}
		sum += time.Duration(d)
		rest = rest[digits+1:]
	}
}
