package bench

import (
	"context"
	"slices"
	"time"
)

// percentile returns the p-th percentile in milliseconds.
func percentile(times []time.Duration, p int) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return ms(sorted[min(len(sorted)-1, len(sorted)*p/100)])
}

func median(times []time.Duration) float64 { return percentile(times, 50) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// inTurns measures the program and the bare interpreter n times each, in turns.
func inTurns(n int, program, bareInterpreter func() (time.Duration, error)) (ours, bare []time.Duration, err error) {
	for range n {
		for _, side := range []struct {
			measure func() (time.Duration, error)
			times   *[]time.Duration
		}{{program, &ours}, {bareInterpreter, &bare}} {
			took, err := side.measure()
			if err != nil {
				return nil, nil, err
			}
			*side.times = append(*side.times, took)
		}
	}
	return ours, bare, nil
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
