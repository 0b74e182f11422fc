package worker

import (
	"bytes"
	"io"
	"sync"
	"syscall"
)

// pipe takes what the process itself writes to one of its descriptors 1 and 2.
type pipe struct {
	f    io.ReadCloser
	raw  syscall.RawConn // nil if f is none that the runtime polls
	take func([]byte)    // is never called twice at a time
	done chan struct{}

	mu  sync.Mutex // held from a read until what was read is taken
	buf [4 << 10]byte
	end bool
}

func startPipe(f io.ReadCloser, take func([]byte)) *pipe {
	p := &pipe{f: f, raw: polled(f), take: take, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if p.raw != nil {
			p.pump()
		} else {
			p.copy()
		}
	}()
	return p
}

// copy takes everything, for pipes that cannot be drained.
func (p *pipe) copy() {
	var buf [4 << 10]byte
	for {
		n, err := p.f.Read(buf[:])
		p.mu.Lock()
		p.take(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *pipe) close() error {
	err := p.f.Close()
	<-p.done
	return err
}

// drains bounds how often a pipe is read at the end of an execution, since a
// process that was left running may go on to write.
const drains = 256

// drain takes what is in the pipes already, of which the pumps may not have
// heard.
func (c *Conn) drain() {
	for _, p := range c.pipes {
		p.drain()
	}
	c.lines.flush()
}

const longestLine = 1 << 20

// lines cuts the stdout of the process into items of output.
type lines struct {
	item func([]byte)
	mu   sync.Mutex
	open []byte // the line that is not finished
}

func (l *lines) take(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		l.open = append(l.open, line...)
		if !found && len(l.open) < longestLine {
			return
		}
		l.item(l.open)
		l.open, p = nil, rest
	}
}

// flush makes an item of the line that is not finished.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		l.item(l.open)
		l.open = nil
	}
}
