package admit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// admitted enqueues names in order and returns the order of their admission. Each
// releases its slot at once.
func admitted(t *testing.T, q *admit.Queue, names ...string) []string {
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
			release, err := q.Acquire(t.Context(), name, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			mu.Lock()
			order = append(order, fmt.Sprint(name, i))
			mu.Unlock()
			release()
		})
		synctest.Wait()
	}
	hold()
	all.Wait()
	return order
}

func TestOwnersAlternateAndKeepArrivalOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1})
		got := admitted(t, q, "a", "a", "a", "a", "b", "b", "c")
		want := []string{"a0", "b4", "c6", "a1", "b5", "a2", "a3"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(admit.Load{}, q.Load()); d != "" {
			t.Error(d)
		}
	})
}

func TestPerOwnerLimitDoesNotBlockOtherOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 3, PerOwner: 1, Wait: time.Minute})
		first, _ := q.Acquire(t.Context(), "a", nil)
		var second atomic.Bool
		go func() {
			if release, err := q.Acquire(t.Context(), "a", nil); err == nil {
				second.Store(true)
				release()
			}
		}()
		synctest.Wait()
		other, err := q.Acquire(t.Context(), "b", nil)
		if err != nil || second.Load() {
			t.Fatalf("b: %v; a's second ran concurrently with its first: %v", err, second.Load())
		}
		other()
		first()
		synctest.Wait()
		if !second.Load() {
			t.Error("a's second did not run after its first was released")
		}
	})
}

func TestFullQueueRejectsWithRetryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Queued: 2, Wait: time.Hour})
		release, _ := q.Acquire(t.Context(), "a", nil)
		time.Sleep(10 * time.Second)
		release() // an execution takes 10 s
		release()
		release, _ = q.Acquire(t.Context(), "a", nil)
		for range 2 {
			go func() {
				if release, err := q.Acquire(t.Context(), "a", nil); err == nil {
					release()
				}
			}()
		}
		synctest.Wait()
		_, err := q.Acquire(t.Context(), "a", nil)
		if fault.KindOf(err) != fault.Exhausted || !strings.HasSuffix(fault.Message(err),
			"1 executions are running and 2 are waiting; try again in 30 seconds") {
			t.Errorf("third waiter in a queue of two: %v", err)
		}
		time.Sleep(40 * time.Second) // longer than the average
		_, err = q.Acquire(t.Context(), "a", nil)
		if !strings.HasSuffix(fault.Message(err), "try again in 120 seconds") {
			t.Errorf("after an execution of 40 s: %v", err)
		}
		release()
	})
}

func TestFullQueueDisplacesWaiterOfBusiestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Queued: 4, Wait: time.Hour})
		hold, _ := q.Acquire(t.Context(), "flood", nil)
		var rejected, admitted atomic.Int32
		enter := func(name string) {
			release, err := q.Acquire(t.Context(), name, nil)
			if err != nil {
				rejected.Add(1)
				return
			}
			if name == "quiet" {
				admitted.Add(1)
			}
			release()
		}
		for range 4 {
			go enter("flood")
		}
		synctest.Wait()
		go enter("quiet")
		synctest.Wait()
		if rejected.Load() != 1 {
			t.Fatalf("rejected %d of the flood, want 1", rejected.Load())
		}
		hold()
		synctest.Wait()
		if admitted.Load() != 1 {
			t.Error("the quiet owner was not admitted")
		}
	})
}

func TestAcquireEndsAtWaitLimitOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Wait: 5 * time.Second})
		hold, _ := q.Acquire(t.Context(), "a", nil)
		began := time.Now()
		_, err := q.Acquire(t.Context(), "a", nil)
		if fault.KindOf(err) != fault.Exhausted || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		gone := errors.New("client disconnected")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err = q.Acquire(ctx, "a", nil); !errors.Is(err, gone) {
			t.Errorf("cancelled: %v", err)
		}
		if _, err = q.Acquire(ctx, "a", nil); !errors.Is(err, gone) {
			t.Errorf("already cancelled: %v", err)
		}
		if d := cmp.Diff(admit.Load{Running: 1}, q.Load()); d != "" {
			t.Error(d)
		}
		hold()
	})
}

func TestAcquireConcurrently(t *testing.T) {
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
				release, err := q.Acquire(ctx, fmt.Sprint(own), nil)
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
					release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if d := cmp.Diff(admit.Load{}, q.Load()); d != "" {
		t.Error(d)
	}
	release, err := q.Acquire(t.Context(), "after", nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// acquire acquires a slot and fails the test on an error.
func acquire(t *testing.T, q *admit.Queue, owner string) (release func()) {
	t.Helper()
	release, err := q.Acquire(t.Context(), owner, nil)
	if err != nil {
		t.Fatalf("%s: %v", owner, err)
	}
	return release
}

func TestLastSlotIsReservedForIdleOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 8, PerOwner: 6, Wait: time.Hour})
		var flood sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 32 {
			flood.Go(func() {
				if release, err := q.Acquire(ctx, "a", nil); err == nil {
					<-ctx.Done()
					release()
				}
			})
		}
		synctest.Wait()
		if d := cmp.Diff(admit.Load{Running: 6, Waiting: 26}, q.Load()); d != "" {
			t.Errorf("one owner at its limit: %s", d)
		}
		b := acquire(t, q, "b")
		second := make(chan struct{})
		go func() { // the last slot is reserved for an owner without executions
			if release, err := q.Acquire(t.Context(), "b", nil); err == nil {
				close(second)
				release()
			}
		}()
		synctest.Wait()
		c := acquire(t, q, "c")
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

func TestFreeSlotGoesToOwnerWithFewestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 4, PerOwner: 3, Wait: time.Hour})
		var release []func()
		for range 3 {
			release = append(release, acquire(t, q, "a"))
		}
		release = append(release, acquire(t, q, "b"))
		var mu sync.Mutex
		var order string
		for _, name := range []string{"a", "b", "c"} {
			go func() {
				if release, err := q.Acquire(t.Context(), name, nil); err == nil {
					mu.Lock()
					order += name
					mu.Unlock()
					defer release()
					time.Sleep(time.Second)
				}
			}()
			synctest.Wait()
		}
		release[0]() // c runs nothing, so it gets the slot although it arrived last
		synctest.Wait()
		if order != "c" {
			t.Errorf("admitted %q", order)
		}
		release[1]() // a and b run one each; the last slot stays reserved
		time.Sleep(10 * time.Second)
		if d := cmp.Diff(admit.Load{Running: 2}, q.Load()); d != "" || len(order) != 3 {
			t.Errorf("admitted %q, %s", order, d)
		}
	})
}

func TestWaiterIsNotifiedOfExpectedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 2, PerOwner: 1, Wait: time.Hour})
		release := acquire(t, q, "a")
		time.Sleep(10 * time.Second)
		release() // an execution takes 10 s
		release = acquire(t, q, "a")
		positions := make(chan admit.Position, 100)
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				var onWait func(admit.Position)
				if i == 1 {
					onWait = func(p admit.Position) { positions <- p }
				}
				if release, err := q.Acquire(t.Context(), "a", onWait); err == nil {
					release()
				}
			})
			synctest.Wait()
		}
		if d := cmp.Diff(admit.Position{Ahead: 1, Start: 20 * time.Second}, <-positions); d != "" {
			t.Error(d)
		}
		time.Sleep(21 * time.Second) // longer than the average
		synctest.Wait()
		var last admit.Position
		for len(positions) > 0 {
			last = <-positions
		}
		if d := cmp.Diff(admit.Position{Ahead: 1, Start: 42 * time.Second}, last); d != "" {
			t.Error(d)
		}
		other := acquire(t, q, "b")
		other()
		release()
		all.Wait()
		if len(positions) > 1 {
			t.Errorf("%d more notifications", len(positions))
		}
	})
}

func TestBackgroundWaitsForAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 2, Queued: 5, Wait: time.Minute})
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		start := func(name, owner string, acquire func(context.Context, string, func(admit.Position)) (func(), error)) {
			all.Go(func() {
				release, err := acquire(t.Context(), owner, nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					order = append(order, name+" is refused")
					return
				}
				order = append(order, name)
				time.AfterFunc(time.Second, release)
			})
			synctest.Wait()
		}
		start("long 1", "a", q.AcquireBackground)
		start("long 2", "b", q.AcquireBackground)
		for _, owner := range []string{"a", "b", "c", "c"} {
			start("background of "+owner, owner, q.AcquireBackground)
		}
		start("call of a", "a", q.Acquire)
		start("background of d", "d", q.AcquireBackground) // the queue is full
		start("call of d", "d", q.Acquire)                 // displaces the one of a
		if d := cmp.Diff(map[string]admit.Load{"a": {Running: 1, Waiting: 1}, "b": {Running: 1, Waiting: 1}, "c": {Waiting: 2},
			"d": {Waiting: 1}}, q.Loads()); d != "" {
			t.Errorf("loads (-want +got):\n%s", d)
		}
		all.Wait()
		slices.Sort(order[4:6]) // two slots become free at once
		slices.Sort(order[6:8])
		want := []string{"long 1", "long 2", "background of d is refused", "background of a is refused", "call of a", "call of d",
			"background of b", "background of c", "background of c"}
		if d := cmp.Diff(want, order); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// While there are always calls that wait, one slot of nine is for the background.
func TestBackgroundIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admit.New(admit.Config{Concurrent: 1, Wait: time.Hour})
		hold, err := q.Acquire(t.Context(), "holder", nil)
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 100)
		var all sync.WaitGroup
		start := func(name string, acquire func(context.Context, string, func(admit.Position)) (func(), error)) {
			all.Go(func() {
				release, err := acquire(t.Context(), "owner", nil)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				order <- name
				release()
			})
			synctest.Wait()
		}
		for range 2 {
			start("background", q.AcquireBackground)
		}
		for range 20 {
			start("call", q.Acquire)
		}
		hold()
		all.Wait()
		close(order)
		var at []int
		n := 0
		for name := range order {
			if n++; name == "background" {
				at = append(at, n)
			}
		}
		if d := cmp.Diff([]int{9, 18}, at); d != "" {
			t.Errorf("turns of the background (-want +got):\n%s", d)
		}
	})
}
