package cli

import (
	"sync"
	"time"
)

// Working shows on a terminal what is being done, from the first second on, until done is
// called.
func (env *Env) Working(text string) (done func()) {
	return env.WorkingOn(func() string { return text })
}

// WorkingOn is like working, with text that changes.
func (env *Env) WorkingOn(text func() string) (done func()) {
	return showWorking(env, time.Now(), text)
}

// showWorking is workingOn for work that began at a time.
func showWorking(env *Env, began time.Time, text func() string) (done func()) {
	if env.JSON || env.line == nil {
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
				env.line.clear()
				return
			case <-tick.C:
				if !env.installing.Load() {
					env.line.draw(lineOf(text(), time.Since(began)))
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}
