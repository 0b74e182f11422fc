package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// working shows on a terminal what is being done, from the first second on, until done is
// called. Nothing else may be printed meanwhile but by installProgress.
func (a *app) working(text string) (done func()) {
	return a.workingOn(func() string { return text })
}

// workingOn is like working, with text that changes.
func (a *app) workingOn(text func() string) (done func()) {
	if a.json || !isTerminal(a.stderr) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-stop:
				if n > 1 {
					fmt.Fprint(a.stderr, "\r\x1b[K")
				}
				return
			case <-tick.C:
				if a.installing.Load() {
					continue
				}
				line := fmt.Sprintf("%s (%d s)", visibleName(text()), n)
				fmt.Fprintf(a.stderr, "\r%s\x1b[K", styleFor(a.stderr).dim(strings.TrimSpace(fit(line, 76))))
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}
