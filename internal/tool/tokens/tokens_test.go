package tokens

import (
	"sync"
	"testing"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"hello world", 2},
		{`{"success":true}`, 5},
		{"日本語", 2},
		{"<|endoftext|>", 7}, // plain text, not the special token
	} {
		got, err := Count(c.text)
		if err != nil || got != c.want {
			t.Errorf("Count(%q) = %d, %v; want %d", c.text, got, err, c.want)
		}
	}
}

func TestCountIsConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if n, err := Count("hello world"); n != 2 || err != nil {
				t.Errorf("Count = %d, %v", n, err)
			}
		})
	}
	wg.Wait()
}
