package memory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
)

const mb = 1 << 20

func reserve(t *testing.T, b *memory.Budget, owner string, n int64) *memory.Share {
	t.Helper()
	s, err := b.Reserve(t.Context(), owner, n)
	if err != nil {
		t.Fatalf("%s: %v", owner, err)
	}
	return s
}

func TestReserveWaitsThenRefusesWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 100 * mb, PerOwner: 40 * mb})
		share := reserve(t, b, "a", 30*mb)
		began := time.Now()
		_, err := b.Reserve(t.Context(), "a", 20*mb)
		if fault.KindOf(err) != fault.Exhausted || time.Since(began) != 5*time.Second || !strings.HasSuffix(fault.Message(err),
			"yours hold 30 MiB of 40 MiB, and this one needs 20 MiB; try again in 5 s") {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		reserve(t, b, "b", 40*mb).Release() // others have their own
		time.AfterFunc(time.Second, share.Release)
		began = time.Now()
		reserve(t, b, "a", 20*mb).Release()
		if time.Since(began) != time.Second {
			t.Errorf("admitted after %v", time.Since(began))
		}
		if _, err := b.Reserve(t.Context(), "a", 41*mb); fault.KindOf(err) != fault.Invalid {
			t.Errorf("more than the limit: %v", err)
		}
	})
}

func TestOwnersTogetherDoNotShutOutAnother(t *testing.T) {
	b := memory.New(memory.Config{Total: 80 * mb, PerOwner: 40 * mb})
	defer reserve(t, b, "a", 40*mb).Release()
	defer reserve(t, b, "b", 40*mb).Release()
	reserve(t, b, "c", mb).Release()
}

func TestLimitOfOwner(t *testing.T) {
	b := memory.New(memory.Config{Total: 80 * mb, PerOwner: 10 * mb, Limit: func(owner string) int64 {
		return map[string]int64{"large": 20 * mb}[owner]
	}})
	reserve(t, b, "large", 20*mb).Release()
	if _, err := b.Reserve(t.Context(), "small", 20*mb); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

func TestAnswersOfOwnerCompleteAlthoughTheyDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 60 * mb, PerOwner: 40 * mb, Turns: 1})
		var done atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			s := reserve(t, b, "a", 5*mb)
			all.Go(func() {
				defer s.Release()
				for range 3 {
					if err := s.Grow(t.Context(), 30*mb); err != nil {
						t.Error(err)
					}
					turn, err := b.Turn(t.Context(), "a", 100*mb)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Second / 10)
					turn()
				}
				done.Add(1)
			})
		}
		all.Wait()
		if one, all := b.Used("a"); one != 0 || all != 0 || done.Load() != 8 {
			t.Errorf("%d done; %d and %d bytes are left", done.Load(), one, all)
		}
	})
}

func TestAnswerDoesNotWaitForShareThatDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 60 * mb, PerOwner: 40 * mb})
		slow, answer, next := b.Open("a"), b.Open("a"), b.Open("a")
		for _, s := range []*memory.Share{slow, answer} { // the second does not fit
			if err := s.Grow(t.Context(), 30*mb); err != nil {
				t.Fatal(err)
			}
		}
		grown := make(chan error, 1)
		go func() { grown <- next.Grow(t.Context(), 30*mb) }()
		synctest.Wait()
		if one, _ := b.Used("a"); one != 60*mb {
			t.Errorf("%d MiB are held, of which only one share may exceed the limit", one/mb)
		}
		if err := answer.Grow(t.Context(), 5*mb); err != nil { // it is that share until its end
			t.Error(err)
		}
		answer.Release()
		if err := <-grown; err != nil {
			t.Error(err)
		}
		slow.Release()
		reserve(t, b, "a", 10*mb).Release()
		next.Release()
		if one, all := b.Used("a"); one != 0 || all != 0 {
			t.Errorf("%d of %d bytes are left", one, all)
		}
	})
}

func TestReleasedShareDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 60 * mb, PerOwner: 40 * mb})
		over, waits := b.Open("a"), b.Open("a")
		if err := over.Grow(t.Context(), 50*mb); err != nil {
			t.Fatal(err)
		}
		grown := make(chan error, 1)
		go func() { grown <- waits.Grow(t.Context(), 30*mb) }()
		synctest.Wait()
		waits.Release()
		if err := <-grown; err == nil {
			t.Error("a share grew that was released while it waited")
		}
		over.Release()
		for _, s := range []*memory.Share{over, waits} {
			if err := s.Grow(t.Context(), mb); err == nil {
				t.Error("a released share grew")
			}
		}
		if one, all := b.Used("a"); one != 0 || all != 0 {
			t.Errorf("%d of %d bytes are left", one, all)
		}
	})
}

func TestTurnsAreDividedAmongOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 1000 * mb, PerOwner: 1000 * mb, Turns: 1})
		hold, err := b.Turn(t.Context(), "holder", mb)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		var all sync.WaitGroup
		for _, owner := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			all.Go(func() {
				turn, err := b.Turn(t.Context(), owner, mb)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, owner)
				turn()
			})
			synctest.Wait()
		}
		hold()
		all.Wait()
		if !slices.Equal(order, []string{"a", "b", "c", "a", "b", "a", "a"}) {
			t.Error(order)
		}
	})
}

func TestLastTurnIsForOwnerWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 1000 * mb, PerOwner: 1000 * mb, Turns: 3})
		var flood sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 8 {
			flood.Go(func() {
				if done, err := b.Turn(ctx, "a", mb); err == nil {
					<-ctx.Done()
					done()
				}
			})
		}
		synctest.Wait()
		done, err := b.Turn(t.Context(), "b", mb)
		if err != nil {
			t.Fatal(err)
		}
		done()
		stop()
		flood.Wait()
		if _, all := b.Used("a"); all != 0 {
			t.Errorf("%d bytes are left", all)
		}
	})
}

// TestNothingIsLeft ends requests in every way: by success, refusal, cancellation and panic.
func TestNothingIsLeft(t *testing.T) {
	b := memory.New(memory.Config{Total: 50 * mb, PerOwner: 20 * mb, Turns: 2, Wait: time.Millisecond, Free: func() {}})
	owners := []string{"a", "b", "c", "d"}
	request := func(owner string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
		defer cancel()
		s, err := b.Reserve(ctx, owner, rand.Int64N(20*mb))
		if err != nil {
			return
		}
		defer s.Release()
		if s.Grow(ctx, rand.Int64N(20*mb)) != nil {
			return
		}
		done, err := b.Turn(ctx, owner, rand.Int64N(60*mb))
		if err != nil {
			return
		}
		defer done()
		if rand.IntN(4) == 0 {
			panic("a bug")
		}
	}
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for range 100 {
				func() {
					defer func() { _ = recover() }()
					request(owners[g%len(owners)])
				}()
			}
		})
	}
	all.Wait()
	for _, o := range owners {
		if one, all := b.Used(o); one != 0 || all != 0 {
			t.Errorf("%s: %d of %d bytes are left", o, one, all)
		}
		reserve(t, b, o, 20*mb).Release()
	}
}

func TestContextEndsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 50 * mb, PerOwner: 20 * mb, Turns: 1})
		share := reserve(t, b, "a", 20*mb)
		gone := errors.New("client disconnected")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err := b.Reserve(ctx, "a", mb); !errors.Is(err, gone) {
			t.Errorf("reserve: %v", err)
		}
		if err := share.Grow(ctx, mb); !errors.Is(err, gone) {
			t.Errorf("grow: %v", err)
		}
		if _, err := b.Turn(ctx, "a", mb); !errors.Is(err, gone) {
			t.Errorf("turn: %v", err)
		}
		share.Release()
		share.Release()
		if one, all := b.Used("a"); one != 0 || all != 0 {
			t.Errorf("%d of %d bytes are left", one, all)
		}
	})
}

func TestMemoryIsReturnedAfterPeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed atomic.Int32
		b := memory.New(memory.Config{Total: 500 * mb, Free: func() { freed.Add(1) }})
		reserve(t, b, "a", mb).Release()
		time.Sleep(time.Minute)
		if freed.Load() != 0 {
			t.Error("memory was returned after a small request")
		}
		large := reserve(t, b, "a", 100*mb)
		large.Release()
		large = reserve(t, b, "a", 100*mb) // at once: it is needed again
		time.Sleep(time.Minute)
		if freed.Load() != 0 {
			t.Error("memory was returned while it was used")
		}
		large.Release()
		time.Sleep(time.Minute)
		if freed.Load() != 1 {
			t.Errorf("memory was returned %d times", freed.Load())
		}
	})
}

// Busy is told of few bytes, not of each request, and of the end when none were held for a second.
func TestBusyWhileFewBytesAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []bool
		b := memory.New(memory.Config{Total: 500 * mb, Free: func() {}, Busy: func(busy bool) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, busy)
		}})
		check := func(when string, want ...bool) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: %v", when, told)
			}
			told = nil
		}
		share := reserve(t, b, "a", mb)
		check("few bytes", true)
		share.Release()
		reserve(t, b, "a", mb).Release()
		check("soon again")
		many := reserve(t, b, "a", 100*mb)
		check("many bytes", false)
		few := reserve(t, b, "b", mb)
		check("many and few")
		many.Release()
		reserve(t, b, "a", mb).Release()
		check("few bytes after many", true)
		time.Sleep(time.Minute)
		check("while few are held")
		few.Release()
		time.Sleep(time.Minute)
		check("the end", false)
	})
}

func TestMachine(t *testing.T) {
	if n := memory.Machine(); n < 64*mb || n > 1<<50 {
		t.Errorf("the machine has %d bytes", n)
	}
}

func TestReadAllHoldsBeforeItReads(t *testing.T) {
	for _, c := range []struct{ size, declared, limit, reserved, read int64 }{
		{10, -1, 100, 0, 10},
		{200, 200, 100, 0, 100},
		{memory.Small, memory.Small, 1 << 20, 0, memory.Small},
		{1 << 20, 1 << 20, 4 << 20, 1<<20 + 1, 1 << 20},
		{memory.Small, -1, 4 << 20, 0, memory.Small},
		{100 << 10, -1, 4 << 20, 256 << 10, 100 << 10},
		{256 << 10, -1, 4 << 20, 1 << 20, 256 << 10}, // its end is not known yet
		{1<<20 - 1, -1, 32 << 20, 1 << 20, 1<<20 - 1},
		{3 << 20, -1, 32 << 20, 4 << 20, 3 << 20},
		{3 << 20, -1, 2 << 20, 2 << 20, 2 << 20},
		{100 << 10, -1, 80 << 10, 80 << 10, 80 << 10},
		{8 << 20, 8 << 20, 4 << 20, 4 << 20, 4 << 20},
	} {
		body := strings.NewReader(strings.Repeat("a", int(c.size)))
		var reserved int64
		got, err := memory.ReadAll(t.Context(), func(_ context.Context, n int64) error {
			if read := c.size - int64(body.Len()); read > max(reserved, memory.Small+1) || reserved > 0 && read < reserved {
				t.Errorf("%+v: %d bytes were read while %d were held", c, read, reserved)
			}
			reserved = n
			return nil
		}, body, c.declared, c.limit)
		if err != nil || int64(len(got)) != c.read || reserved != c.reserved {
			t.Errorf("%+v: %d bytes, %d held, %v", c, len(got), reserved, err)
		}
	}
	refused := errors.New("no room")
	body := strings.NewReader(strings.Repeat("a", 1<<20))
	if _, err := memory.ReadAll(t.Context(), func(context.Context, int64) error { return refused }, body, -1, 1<<20); !errors.Is(err,
		refused) {
		t.Error(err)
	}
}

func TestAnswerHoldsOnce(t *testing.T) {
	b := memory.New(memory.Config{Total: 500 * mb})
	s := b.Open("a")
	for _, c := range []struct{ size, reserved int64 }{{1000, 0}, {2 * mb, 12 * mb}, {mb, 12 * mb}, {3 * mb, 18 * mb}} {
		if err := s.Answer(t.Context(), c.size); err != nil {
			t.Fatal(err)
		}
		if one, _ := b.Used("a"); one != c.reserved {
			t.Errorf("%d bytes are held for an answer of %d, want %d", one, c.size, c.reserved)
		}
	}
	s.Release()
	if one, all := b.Used("a"); one != 0 || all != 0 {
		t.Errorf("%d of %d bytes are left", one, all)
	}
}

func TestShareExtendsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Total: 60 * mb, PerOwner: 40 * mb})
		s := b.Open("a")
		for _, n := range []int64{10 * mb, 20 * mb} {
			if err := s.Extend(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Extend(t.Context(), 11*mb); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a share above the limit: %v", err)
		}
		other := b.Open("a")
		waited := make(chan error)
		go func() { waited <- other.Extend(t.Context(), 20*mb) }()
		synctest.Wait()
		s.Shrink(20 * mb) // makes room
		if err := <-waited; err != nil {
			t.Error(err)
		}
		s.Shrink(30 * mb) // it holds less
		if err := s.Extend(t.Context(), mb); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("a share without room: %v", err)
		}
		go func() { waited <- s.Extend(t.Context(), 10*mb) }()
		synctest.Wait()
		s.Release()
		if err := <-waited; err == nil {
			t.Error("a share was extended that was released while it waited")
		}
		s.Shrink(0)
		other.Release()
		if one, all := b.Used("a"); one != 0 || all != 0 {
			t.Errorf("%d of %d bytes are left", one, all)
		}
	})
}
