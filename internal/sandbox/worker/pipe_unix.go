//go:build unix

package worker

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pump reads data as it arrives until EOF.
func (p *pipe) pump() {
	_ = p.raw.Read(func(fd uintptr) bool {
		for p.step(int(fd)) {
		}
		return p.ended()
	})
}

// drain reads the data that has arrived, without waiting.
func (p *pipe) drain() {
	if p.raw == nil {
		return
	}
	_ = p.raw.Control(func(fd uintptr) {
		for n := 0; n < maxDrainReads && p.step(int(fd)); n++ {
		}
	})
}

// writeNow writes as much of p as possible without waiting and returns the number
// of bytes. An error recurs when the rest is written.
func writeNow(raw syscall.RawConn, p []byte) int {
	n := 0
	if raw != nil {
		_ = raw.Write(func(fd uintptr) bool {
			n, _ = unix.Write(int(fd), p)
			return true
		})
	}
	return max(n, 0)
}

// readWithin reads what arrives within d, without parking the goroutine, and returns the
// number of bytes. The end of the input and an error recur at the next read.
func readWithin(raw syscall.RawConn, p []byte, d time.Duration) int {
	n := 0
	_ = raw.Read(func(fd uintptr) bool {
		for began := time.Now(); ; {
			var err error
			n, err = unix.Read(int(fd), p)
			if err != unix.EAGAIN && err != unix.EINTR || time.Since(began) > d {
				return true
			}
		}
	})
	return max(n, 0)
}

// pollable returns the raw connection of f if the runtime polls f, else nil.
func pollable(f any) syscall.RawConn {
	c, ok := f.(interface {
		syscall.Conn
		SetReadDeadline(time.Time) error
	})
	if !ok || c.SetReadDeadline(time.Time{}) != nil { // of a blocking file it fails
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// step reads once and passes the data on. It reports whether more may be available.
func (p *pipe) step(fd int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end {
		return false
	}
	n, err := unix.Read(fd, p.buf[:])
	switch {
	case err == unix.EINTR:
		return true
	case err == unix.EAGAIN:
		return false
	case err != nil || n == 0:
		p.end = true
		return false
	}
	p.take(p.buf[:n])
	return true
}

func (p *pipe) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}
