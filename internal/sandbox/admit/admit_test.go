package admit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
)

// line lets names enter q one after the other and returns the order in which
// they were admitted, each leaving at once when all have been lined up.
func line(t *testing.T, q *admit.Queue, names ...string) []string {
	t.Helper()
	hold, err := q.Enter(t.Context(), "holder")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			leave, err := q.Enter(t.Context(), name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			mu.Lock()
			order = append(order, fmt.Sprint(name, i))
			mu.Unlock()
			leave()
		})
		synctest.Wait()
	}
	hold()
	all.Wait()
	return order
}

func TestOwnersTakeTurnsAndEachKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1})
		got := line(t, q, "a", "a", "a", "a", "b", "b", "c")
		want := []string{"a0", "b4", "c6", "a1", "b5", "a2", "a3"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(admit.Load{}, q.Load()); d != "" {
			t.Error(d)
		}
	})
}

func TestAnOwnerAtItsBoundWaitsWhileOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 3, PerOwner: 1, Wait: time.Minute})
		first, _ := q.Enter(t.Context(), "a")
		var second atomic.Bool
		go func() {
			if leave, err := q.Enter(t.Context(), "a"); err == nil {
				second.Store(true)
				leave()
			}
		}()
		synctest.Wait()
		other, err := q.Enter(t.Context(), "b")
		if err != nil || second.Load() {
			t.Fatalf("b: %v; a's second ran beside its first: %v", err, second.Load())
		}
		other()
		first()
		synctest.Wait()
		if !second.Load() {
			t.Error("a's second did not run after its first had left")
		}
	})
}

func TestTheQueueIsBoundedAndSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Queued: 2, Wait: time.Hour})
		leave, _ := q.Enter(t.Context(), "a")
		time.Sleep(10 * time.Second)
		leave() // an execution takes 10 s
		leave()
		leave, _ = q.Enter(t.Context(), "a")
		for range 2 {
			go func() {
				if leave, err := q.Enter(t.Context(), "a"); err == nil {
					leave()
				}
			}()
		}
		synctest.Wait()
		_, err := q.Enter(t.Context(), "a")
		if fault.KindOf(err) != fault.Exhausted || !strings.HasSuffix(fault.Message(err), "1 executions run and 2 wait; try again in 30 seconds") {
			t.Errorf("a third in a line of two: %v", err)
		}
		time.Sleep(40 * time.Second) // the running one is slower than any before
		_, err = q.Enter(t.Context(), "a")
		if !strings.HasSuffix(fault.Message(err), "try again in 120 seconds") {
			t.Errorf("behind an execution of 40 s: %v", err)
		}
		leave()
	})
}

func TestOneOwnersFloodDoesNotCloseTheQueueToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Queued: 4, Wait: time.Hour})
		hold, _ := q.Enter(t.Context(), "flood")
		var sentAway, admitted atomic.Int32
		enter := func(name string) {
			leave, err := q.Enter(t.Context(), name)
			if err != nil {
				sentAway.Add(1)
				return
			}
			if name == "quiet" {
				admitted.Add(1)
			}
			leave()
		}
		for range 4 {
			go enter("flood")
		}
		synctest.Wait()
		go enter("quiet")
		synctest.Wait()
		if sentAway.Load() != 1 {
			t.Fatalf("sent away %d of the flood, want 1", sentAway.Load())
		}
		hold()
		synctest.Wait()
		if admitted.Load() != 1 {
			t.Error("the quiet owner was not admitted")
		}
	})
}

func TestWaitingEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Wait: 5 * time.Second})
		hold, _ := q.Enter(t.Context(), "a")
		began := time.Now()
		_, err := q.Enter(t.Context(), "a")
		if fault.KindOf(err) != fault.Exhausted || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		gone := errors.New("client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err = q.Enter(ctx, "a"); !errors.Is(err, gone) {
			t.Errorf("cancelled: %v", err)
		}
		if _, err = q.Enter(ctx, "a"); !errors.Is(err, gone) {
			t.Errorf("cancelled before: %v", err)
		}
		if d := cmp.Diff(admit.Load{Running: 1}, q.Load()); d != "" {
			t.Error(d)
		}
		hold()
	})
}

func TestHammer(t *testing.T) {
	const concurrent, perOwner = 5, 3
	q := admit.New(admit.Config{Concurrent: concurrent, PerOwner: perOwner, Queued: 20, Wait: time.Millisecond})
	var running atomic.Int32
	var each [7]atomic.Int32
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			own := g % len(each)
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
				leave, err := q.Enter(ctx, fmt.Sprint(own))
				if err == nil {
					if n := running.Add(1); n > concurrent {
						t.Errorf("%d at once", n)
					}
					if n := each[own].Add(1); n > perOwner {
						t.Errorf("%d at once of one owner", n)
					}
					for range rand.IntN(50) {
						_ = time.Now()
					}
					each[own].Add(-1)
					running.Add(-1)
					leave()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if d := cmp.Diff(admit.Load{}, q.Load()); d != "" {
		t.Error(d)
	}
	leave, err := q.Enter(t.Context(), "after")
	if err != nil {
		t.Fatal(err)
	}
	leave()
}
