package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runUntil starts an execution that ends when the file "go" exists, and waits until it runs.
func (v *visitor) runUntil() (answer chan string) {
	v.t.Helper()
	answer = make(chan string, 1)
	go func() { // which may not end the test
		const args = `{"code":"import os, time\nopen('runs','w').close()\nwhile not os.path.exists('go'): ` +
			`time.sleep(.02)\n'completed'","timeout_seconds":60}`
		res, err := v.tool(v.t.Context(), "execute_code", args)
		if err != nil {
			answer <- "no answer: " + err.Error()
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			b = fmt.Appendf(b, "; it ends with %v", err)
		}
		answer <- string(b)
	}()
	for {
		if _, err := os.Lstat(filepath.Join(v.workspace("local"), "runs")); err == nil {
			return answer
		}
		select {
		case got := <-answer:
			v.t.Fatal(got)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop sends SIGTERM, and waits until the daemon is not ready.
func (d *daemonProcess) stop() {
	d.t.Helper()
	if err := syscall.Kill(d.pid, syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	for {
		res, err := http.Get("http://" + d.addr + "/readyz")
		if err != nil {
			d.t.Fatal("the daemon ended without draining: ", err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "stopping") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// While a daemon drains, running calls complete, and new ones are refused with the time to try again, in
// each revision of the protocol.
func TestStoppingDaemonCompletesCallsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	for name, visit := range map[string]func(*daemonProcess) *visitor{"2026-07-28": func(d *daemonProcess) *visitor { return d.visit() },
		"2025-11-25": func(d *daemonProcess) *visitor { return d.visitOlder() }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startServing(t, "", "http: {drain: 10m}")
			v := visit(d)
			running := v.runUntil()
			d.stop()
			res, err := v.call(t.Context(), "1")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if after, err := strconv.Atoi(res.Header.Get("Retry-After")); res.StatusCode != http.StatusServiceUnavailable || err != nil ||
				after < 500 || after > 600 || !strings.Contains(string(text), "stopping") {
				t.Errorf("a new call: %d, %v, %s", res.StatusCode, res.Header, text)
			}
			if err := os.WriteFile(filepath.Join(d.workspace("local"), "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if got := <-running; !strings.Contains(got, "completed") {
				t.Errorf("the running call: %s", got)
			}
			<-d.ended
		})
	}
}

// A call that does not end is cancelled after http.drain.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "http: {drain: 200ms}")
	running := d.visit().runUntil()
	if err := syscall.Kill(d.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-d.ended
	if got := <-running; strings.Contains(got, "completed") || !strings.Contains(got, "cancelled") {
		t.Errorf("the call: %s", got)
	}
}

// A second signal ends a daemon that drains, and its code.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "http: {drain: 10m}")
	d.exit = 128 + int(syscall.SIGTERM)
	v := d.visit()
	go func() {
		res, err := v.call(t.Context(), "import time\nopen('runs','w').close()\ntime.sleep(60)")
		if err == nil {
			res.Body.Close()
		}
	}()
	for {
		if _, err := os.Lstat(filepath.Join(d.workspace("local"), "runs")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.stop()
	if err := syscall.Kill(d.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-d.ended
}
