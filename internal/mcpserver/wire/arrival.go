package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
)

// perByte is the memory that a request takes by its length until it is answered: as it is read, as
// the SDK has decoded it, and as its arguments are decoded and restored.
const perByte = 4

const (
	// pieceSize is the size of the pieces in which a large body is read.
	pieceSize = 256 << 10
	// growth is the factor by which the memory for a body of undeclared size grows while more arrives.
	growth = 4
	// slowAfter is the time after which a body holds memory for the bytes that have arrived, not for its size.
	slowAfter = 2 * time.Second
)

// pieces is the content of a body. Reading frees it, since the SDK makes a copy.
type pieces [][]byte

// Read implements io.Reader.
func (p *pieces) Read(b []byte) (n int, err error) {
	for len(*p) > 0 && len((*p)[0]) == 0 {
		(*p)[0] = nil
		*p = (*p)[1:]
	}
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n = copy(b, (*p)[0])
	(*p)[0] = (*p)[0][n:]
	return n, nil
}

// arrival is a large body that is being read. One of declared size holds the memory for all of it
// before it is read, so that a caller above its limit does not send what is refused; one that is slow
// or of undeclared size holds what has arrived and a step more.
type arrival struct {
	body  io.Reader
	share *memory.Share
	limit int64 // of its size: what is declared, or allowed

	declared bool

	mu   sync.Mutex
	read int64 // bytes that have arrived
	room int64 // bytes that memory is held for
	step int64 // next room of a body of undeclared size; 0 if it is slow
	done bool
}

// receive reads a body into memory, and makes the share hold what a request of its size takes.
func receive(r *http.Request, share *memory.Share, most int64) (pieces, error) {
	begin, err := io.ReadAll(io.LimitReader(r.Body, memory.Small+1))
	if err != nil || len(begin) <= memory.Small {
		return pieces{begin}, arrivalError(err, int64(len(begin)), r.ContentLength)
	}
	a := &arrival{body: r.Body, share: share, limit: most, read: int64(len(begin)), step: pieceSize}
	if r.ContentLength >= 0 {
		a.limit, a.step, a.declared = r.ContentLength, r.ContentLength, true
	}
	slow := time.AfterFunc(slowAfter, a.slow)
	defer slow.Stop()
	defer a.finish()
	for body := (pieces{begin}); ; {
		piece, err := a.next(r.Context())
		body = append(body, piece)
		switch {
		case a.read > most:
			return nil, fault.New(fault.Invalid, "a request has at most %d bytes", most)
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, arrivalError(err, a.read, r.ContentLength)
		}
	}
}

// next reads the next piece; io.EOF with the last one.
func (a *arrival) next(ctx context.Context) (piece []byte, err error) {
	if err := a.hold(ctx); err != nil {
		return nil, err
	}
	piece = make([]byte, min(pieceSize, a.limit-a.read+1))
	n := 0
	for n < len(piece) && err == nil {
		var more int
		more, err = a.body.Read(piece[n:])
		n += more
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read += int64(n)
	return piece[:n], err
}

// hold holds the memory for the next piece.
func (a *arrival) hold(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	to := min(a.read+pieceSize, a.limit)
	if to <= a.room {
		return nil
	}
	step := max(to, min(a.step, a.limit))
	err := a.share.Extend(ctx, perByte*(step-a.room))
	if fault.KindOf(err) == fault.Invalid && !a.declared { // the step never fits, but the body may be smaller
		step = to
		err = a.share.Extend(ctx, perByte*(step-a.room))
	}
	if err == nil {
		a.room, a.step = step, a.step*growth
	}
	return err
}

// slow returns the memory for bytes that have not arrived, except the next piece.
func (a *arrival) slow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.step = 0
	a.shrink(a.read + pieceSize)
}

// finish returns the memory for more than has arrived.
func (a *arrival) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shrink(a.read)
	a.done = true
}

func (a *arrival) shrink(to int64) {
	if a.room > to && !a.done {
		a.room = to
		a.share.Shrink(perByte * to)
	}
}

// arrivalError returns the error for a body of which n bytes arrived; nil for nil.
func arrivalError(err error, n, size int64) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case size < 0:
		return fault.New(fault.Unavailable, "the body of the request did not arrive in time: it stopped after %d bytes", n).
			WithHint("send the request again")
	}
	return fault.New(fault.Unavailable, "the body of the request did not arrive in time: it stopped after %d of %d bytes", n, size).
		WithHint("send the request again")
}
