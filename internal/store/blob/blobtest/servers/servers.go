// Package servers runs stores for tests of buckets: versitygw and moto (S3), fake-gcs-server (Google Cloud
// Storage), azurite (Azure) and PostgreSQL. Each listens on a port of the loopback interface, keeps its data in a
// temporary directory or in memory, and ends with the test.
//
// The programs are below the directory BUCKET_SERVERS, where .ci/run installs them, or in PATH. If one is missing, the test is
// skipped, or fails if REQUIRE_BUCKETS is set.
package servers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// find returns the path of a program that is at one of the paths below BUCKET_SERVERS, or has the name of the first in PATH.
func find(t testing.TB, paths ...string) string {
	t.Helper()
	for _, p := range paths {
		if dir := os.Getenv("BUCKET_SERVERS"); dir != "" && !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	path, err := exec.LookPath(filepath.Base(paths[0]))
	if err != nil {
		missing(t, filepath.Base(paths[0]))
	}
	return path
}

func missing(t testing.TB, program string) {
	t.Helper()
	if os.Getenv("REQUIRE_BUCKETS") != "" {
		t.Fatalf("%s is not installed, and REQUIRE_BUCKETS is set", program)
	}
	t.Skipf("%s is not installed; BUCKET_SERVERS names the directory of the servers", program)
}

// freeAddress returns an address at which nobody listens now.
func freeAddress(t testing.TB) (address, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address = l.Addr().String()
	_, port, _ = net.SplitHostPort(address)
	return address, port
}

// start runs a server until the test ends, and returns when it listens.
func start(t testing.TB, address string, cmd *exec.Cmd) {
	t.Helper()
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	program := filepath.Base(cmd.Path)
	prepare(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		stop(cmd)
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", program, out)
		}
	})
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", program, out)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen:\n%s", program, out)
		}
	}
}

// wait calls try until it succeeds, for a minute at most.
func wait(t testing.TB, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// output keeps the end of what a server prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxOutput = 4 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if extra := o.b.Len() - maxOutput; extra > 0 {
		o.b.Next(extra)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// bucketNames numbers the buckets of a server.
type bucketNames struct {
	mu sync.Mutex
	n  int
}

func (b *bucketNames) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	return fmt.Sprintf("bucket-%d", b.n)
}
