package mcp

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLargeMessagesWaitForThoseBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u unclaimed
		began := time.Now()
		at := func(want time.Duration, what string) {
			t.Helper()
			if got := time.Since(began); got != want {
				t.Errorf("%s after %v, want %v", what, got, want)
			}
		}
		u.begin("first", 10, 20)
		u.begin("second", 10, 20)
		at(0, "two messages")
		u.add("answer", 8) // of the first
		u.end("first")
		time.AfterFunc(time.Second, func() { u.end("answer") })
		u.begin("third", 10, 20)
		at(time.Second, "the third")
		var all sync.WaitGroup
		all.Go(func() { u.begin("fourth", 10, 20) })
		synctest.Wait()
		u.end("second")
		u.end("second")
		all.Wait()
		at(time.Second, "the fourth")
		u.begin("fifth", 10, 20)
		at(time.Second+claimWait, "a message after others that nobody claims")
		for _, key := range []string{"third", "fourth", "fifth"} {
			u.end(key)
		}
		if u.bytes != 0 || len(u.by) != 0 {
			t.Errorf("%d bytes of %d messages are left", u.bytes, len(u.by))
		}
		u.begin("larger than allowed", 100, 20)
		at(time.Second+claimWait, "the only message")
	})
}

// Answers that nobody claims delay those after them once, until they have been claimed.
func TestUnclaimedAnswersDelayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2 * largeMessage
		var u unclaimed
		for round := range 2 {
			u.begin("unclaimed", most, most)
			began := time.Now()
			for key := range 2 {
				u.begin(key, largeMessage, most)
			}
			for key := range 2 {
				u.end(key)
			}
			u.begin("after others were claimed", largeMessage, most)
			if got := time.Since(began); got != time.Second {
				t.Errorf("round %d: messages waited for %v", round, got)
			}
			u.begin("more", largeMessage, most)
			u.begin("more than twice as many", largeMessage, most)
			if got := time.Since(began); got != 2*time.Second {
				t.Errorf("round %d: with twice as many messages waited for %v", round, got)
			}
			u.end("more")
			u.end("more than twice as many")
			u.end("after others were claimed")
			u.end("unclaimed")
		}
	})
}
