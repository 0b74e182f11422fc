package main

import (
	"sync"
	"time"
)

// working shows on a terminal what is being done, from the first second on, until done is
// called.
func (a *app) working(text string) (done func()) {
	return a.workingOn(func() string { return text })
}

// workingOn is like working, with text that changes.
func (a *app) workingOn(text func() string) (done func()) {
	return showWorking(a, time.Now(), text)
}

// showWorking is workingOn for work that began at a time.
func showWorking(a *app, began time.Time, text func() string) (done func()) {
	if a.json || a.line == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				a.line.clear()
				return
			case <-tick.C:
				if !a.installing.Load() {
					a.line.draw(lineOf(text(), time.Since(began)))
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}
