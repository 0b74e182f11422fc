package worker

import (
	"bytes"
	"io"
	"sync"
	"syscall"
)

// pipe reads descriptor 1 or 2 of the worker process.
type pipe struct {
	f    io.ReadCloser
	raw  syscall.RawConn // nil if f is not pollable
	take func([]byte)    // calls do not overlap
	done chan struct{}

	mu  sync.Mutex // held from a read until its data is passed to take
	buf [4 << 10]byte
	end bool
}

func startPipe(f io.ReadCloser, take func([]byte)) *pipe {
	p := &pipe{f: f, raw: pollable(f), take: take, done: make(chan struct{})}
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

// copy reads until EOF, for pipes that cannot be drained.
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

// maxDrainReads bounds the reads of a pipe at the end of an execution, since a
// process that the code left running may keep writing.
const maxDrainReads = 256

// drain reads the data that is in the pipes and that the pumps have not read yet.
func (c *Conn) drain() {
	for _, p := range c.pipes {
		p.drain()
	}
	c.lines.flush()
}

const maxLine = 1 << 20

// lines splits the stdout of the process into output items.
type lines struct {
	item func([]byte)
	mu   sync.Mutex
	open []byte // the unfinished line
}

func (l *lines) take(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		l.open = append(l.open, line...)
		if !found && len(l.open) < maxLine {
			return
		}
		l.item(l.open)
		l.open, p = nil, rest
	}
}

// flush passes the unfinished line on as an item.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		l.item(l.open)
		l.open = nil
	}
}
