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
	hold, err := q.Acquire(t.Context(), "holder", nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			leave, err := q.Acquire(t.Context(), name, nil)
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
		first, _ := q.Acquire(t.Context(), "a", nil)
		var second atomic.Bool
		go func() {
			if leave, err := q.Acquire(t.Context(), "a", nil); err == nil {
				second.Store(true)
				leave()
			}
		}()
		synctest.Wait()
		other, err := q.Acquire(t.Context(), "b", nil)
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
		leave, _ := q.Acquire(t.Context(), "a", nil)
		time.Sleep(10 * time.Second)
		leave() // an execution takes 10 s
		leave()
		leave, _ = q.Acquire(t.Context(), "a", nil)
		for range 2 {
			go func() {
				if leave, err := q.Acquire(t.Context(), "a", nil); err == nil {
					leave()
				}
			}()
		}
		synctest.Wait()
		_, err := q.Acquire(t.Context(), "a", nil)
		if fault.KindOf(err) != fault.Exhausted || !strings.HasSuffix(fault.Message(err), "1 executions run and 2 wait; try again in 30 seconds") {
			t.Errorf("a third in a line of two: %v", err)
		}
		time.Sleep(40 * time.Second) // the running one is slower than any before
		_, err = q.Acquire(t.Context(), "a", nil)
		if !strings.HasSuffix(fault.Message(err), "try again in 120 seconds") {
			t.Errorf("behind an execution of 40 s: %v", err)
		}
		leave()
	})
}

func TestOneOwnersFloodDoesNotCloseTheQueueToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Queued: 4, Wait: time.Hour})
		hold, _ := q.Acquire(t.Context(), "flood", nil)
		var sentAway, admitted atomic.Int32
		enter := func(name string) {
			leave, err := q.Acquire(t.Context(), name, nil)
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
		hold, _ := q.Acquire(t.Context(), "a", nil)
		began := time.Now()
		_, err := q.Acquire(t.Context(), "a", nil)
		if fault.KindOf(err) != fault.Exhausted || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		gone := errors.New("client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err = q.Acquire(ctx, "a", nil); !errors.Is(err, gone) {
			t.Errorf("cancelled: %v", err)
		}
		if _, err = q.Acquire(ctx, "a", nil); !errors.Is(err, gone) {
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
				leave, err := q.Acquire(ctx, fmt.Sprint(own), nil)
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
	leave, err := q.Acquire(t.Context(), "after", nil)
	if err != nil {
		t.Fatal(err)
	}
	leave()
}

// enter enters without waiting.
func enter(t *testing.T, q *admit.Queue, owner string) (leave func()) {
	t.Helper()
	leave, err := q.Acquire(t.Context(), owner, nil)
	if err != nil {
		t.Fatalf("%s: %v", owner, err)
	}
	return leave
}

func TestAFloodLeavesSlotsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 8, PerOwner: 6, Wait: time.Hour})
		var flood sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 32 {
			flood.Go(func() {
				if leave, err := q.Acquire(ctx, "a", nil); err == nil {
					<-ctx.Done()
					leave()
				}
			})
		}
		synctest.Wait()
		if d := cmp.Diff(admit.Load{Running: 6, Waiting: 26}, q.Load()); d != "" {
			t.Errorf("a flood of one: %s", d)
		}
		b := enter(t, q, "b")
		second := make(chan struct{})
		go func() { // the last slot is for somebody who has none
			if leave, err := q.Acquire(t.Context(), "b", nil); err == nil {
				close(second)
				leave()
			}
		}()
		synctest.Wait()
		c := enter(t, q, "c")
		select {
		case <-second:
			t.Error("b took the last slot")
		default:
		}
		c()
		b()
		<-second
		stop()
		flood.Wait()
	})
}

func TestAFreeSlotGoesToWhoHasFewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 4, PerOwner: 3, Wait: time.Hour})
		var leave []func()
		for range 3 {
			leave = append(leave, enter(t, q, "a"))
		}
		leave = append(leave, enter(t, q, "b"))
		var mu sync.Mutex
		var order string
		for _, name := range []string{"a", "b", "c"} {
			go func() {
				if leave, err := q.Acquire(t.Context(), name, nil); err == nil {
					mu.Lock()
					order += name
					mu.Unlock()
					defer leave()
					time.Sleep(time.Second)
				}
			}()
			synctest.Wait()
		}
		leave[0]() // c has none, though it came last, and takes the slot
		synctest.Wait()
		if order != "c" {
			t.Errorf("admitted %q", order)
		}
		leave[1]() // b has one, a one, and the last slot is kept
		time.Sleep(10 * time.Second)
		if d := cmp.Diff(admit.Load{Running: 2}, q.Load()); d != "" || len(order) != 3 {
			t.Errorf("admitted %q, %s", order, d)
		}
	})
}

func TestWhoWaitsIsToldWhenTheyAreExpectedToStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 2, PerOwner: 1, Wait: time.Hour})
		leave := enter(t, q, "a")
		time.Sleep(10 * time.Second)
		leave() // an execution takes 10 s
		leave = enter(t, q, "a")
		places := make(chan admit.Position, 100)
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				var told func(admit.Position)
				if i == 1 {
					told = func(p admit.Position) { places <- p }
				}
				if leave, err := q.Acquire(t.Context(), "a", told); err == nil {
					leave()
				}
			})
			synctest.Wait()
		}
		if d := cmp.Diff(admit.Position{Ahead: 1, Start: 20 * time.Second}, <-places); d != "" {
			t.Error(d)
		}
		time.Sleep(21 * time.Second) // it is slower than the one before
		synctest.Wait()
		var last admit.Position
		for len(places) > 0 {
			last = <-places
		}
		if d := cmp.Diff(admit.Position{Ahead: 1, Start: 42 * time.Second}, last); d != "" {
			t.Error(d)
		}
		other := enter(t, q, "b")
		other()
		leave()
		all.Wait()
		if len(places) > 1 {
			t.Errorf("told %d times more", len(places))
		}
	})
}
