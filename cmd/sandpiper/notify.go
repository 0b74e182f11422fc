package main

import (
	"context"
	"sync"
	"time"

	service "github.com/coreos/go-systemd/v22/daemon"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
)

// notify reports to the service manager that the server accepts connections, and then that it is alive, at
// half the interval that the manager asks for, until ctx ends, when the server stops. stop waits for
// the goroutine. Without a service manager it does nothing.
func notify(ctx context.Context, env *cli.Env) (stop func()) {
	tell(env, service.SdNotifyReady)
	interval, err := service.SdWatchdogEnabled(false)
	if err != nil {
		env.Warn("the variables of the watchdog are invalid: " + err.Error())
	}
	ended := context.AfterFunc(ctx, func() { tell(env, service.SdNotifyStopping) })
	done := make(chan struct{})
	var alive sync.WaitGroup
	if interval > 0 {
		alive.Go(func() {
			tick := time.NewTicker(interval / 2)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					tell(env, service.SdNotifyWatchdog)
				}
			}
		})
	}
	return func() { ended(); close(done); alive.Wait() }
}

// tell sends a state to the service manager.
func tell(env *cli.Env, state string) {
	if _, err := service.SdNotify(false, state); err != nil {
		env.Warn("the service manager was not told " + state + ": " + err.Error())
	}
}
