package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// scene is the host of the sandboxes: files that must not be read and servers that must not be
// reached.
type scene struct {
	setup Setup
	dir   string
	known map[string]any // facts about the host, available to attacks
	wait  sync.WaitGroup

	mu     sync.Mutex
	reach  []string // servers that were reached
	before []string // the initial files in dir
}

const canary = "the canary of the host is alive"

// secret is in the environment and the memory of the daemon.
const secret = "correct-horse-battery-staple-0451"

func newScene(t *testing.T, setup Setup) *scene {
	t.Helper()
	s := &scene{setup: setup, dir: hostDir(t)}
	host, _ := os.Hostname()
	s.known = map[string]any{
		"unique": filepath.Base(s.dir) + ".scratch", "dir": s.dir, "canary": filepath.Join(s.dir, "canary"), "pid": os.Getpid(),
		"uid": os.Getuid(), "name": host,
		"secret_backwards": backwards(secret), "dir_backwards": backwards(s.dir),
	}
	t.Setenv("SANDPIPER_TEST_SECRET", secret)
	if err := os.WriteFile(filepath.Join(s.dir, "canary"), []byte(canary), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.dir, "canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.listen(t)
	s.before = s.list()
	s.emptyWorkspaces(t)
	return s
}

// hostDir creates a directory that every user of the host may write to. It avoids /tmp, because a
// sandbox has its own.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandboxtest-")
	if err != nil {
		dir, err = os.MkdirTemp("", "sandboxtest-")
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.RemoveAll(dir)
		for _, scratch := range []string{"/tmp", "/dev/shm"} { // successful attacks write here
			os.Remove(filepath.Join(scratch, filepath.Base(dir)+".scratch"))
		}
	})
	return dir
}

// listen starts the servers that this host supports.
func (s *scene) listen(t *testing.T) {
	t.Cleanup(s.wait.Wait) // last, after all are closed
	unique := filepath.Base(s.dir)
	for _, l := range []struct{ key, network, address string }{
		{"tcp", "tcp4", "127.0.0.1:0"}, {"tcp6", "tcp6", "[::1]:0"},
		{"abstract", "unix", "@" + unique}, {"socket", "unix", filepath.Join(s.dir, "socket")},
	} {
		ln, err := net.Listen(l.network, l.address)
		if err != nil {
			continue
		}
		s.known[l.key] = address(ln.Addr())
		t.Cleanup(func() { ln.Close() })
		s.wait.Go(func() { s.accept(l.key, ln) })
	}
	for _, l := range []struct{ key, network, address string }{
		{"udp", "udp4", "127.0.0.1:0"},
		{"abstract_dgram", "unixgram", "@" + unique + ".dgram"}, {"socket_dgram", "unixgram", filepath.Join(s.dir, "dgram")},
	} {
		c, err := net.ListenPacket(l.network, l.address)
		if err != nil {
			continue
		}
		s.known[l.key] = address(c.LocalAddr())
		t.Cleanup(func() { c.Close() })
		s.wait.Go(func() { s.receive(l.key, c) })
	}
	for _, name := range []string{"socket", "dgram"} {
		_ = os.Chmod(filepath.Join(s.dir, name), 0o777)
	}
}

// address returns a port, or a path in which a leading "@" means a zero byte.
func address(a net.Addr) any {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.Port
	case *net.UDPAddr:
		return a.Port
	}
	return a.String()
}

func (s *scene) accept(key string, ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		s.reached(key)
		_, _ = c.Write([]byte(canary))
		c.Close()
	}
}

func (s *scene) receive(key string, c net.PacketConn) {
	var buf [512]byte
	for {
		_, from, err := c.ReadFrom(buf[:])
		if err != nil {
			return
		}
		s.reached(key)
		if from != nil {
			_, _ = c.WriteTo([]byte(canary), from)
		}
	}
}

func (s *scene) reached(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reach = append(s.reach, key)
}

func (s *scene) list() []string {
	entries, _ := os.ReadDir(s.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// check checks that an attack did not change the host.
func (s *scene) check(t *testing.T, c Case) {
	t.Helper()
	s.mu.Lock()
	reach := s.reach
	s.reach = nil
	s.mu.Unlock()
	if len(reach) > 0 {
		t.Errorf("%s: servers of the host were reached: %v", c.Name, reach)
	}
	if now := s.list(); fmt.Sprint(now) != fmt.Sprint(s.before) {
		t.Errorf("%s: the host's directory contained %v, now %v", c.Name, s.before, now)
	}
	if b, err := os.ReadFile(filepath.Join(s.dir, "canary")); err != nil || string(b) != canary {
		t.Errorf("%s: the canary was changed: %q %v", c.Name, b, err)
	}
	if name, _ := os.Hostname(); name != s.known["name"] {
		t.Errorf("%s: the host name is now %q", c.Name, name)
	}
}

// waitForCleanup waits until the backend has released all resources.
func (s *scene) waitForCleanup(t *testing.T, b sandbox.Backend) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; {
		left := s.setup.Leftovers(b)
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %s", left)
		}
		<-tick.C
	}
}

// emptyWorkspaces empties the workspaces. Close does not wait until killed processes have exited,
// so they may still change a workspace for a moment.
func (s *scene) emptyWorkspaces(t *testing.T) {
	t.Helper()
	for _, owner := range []string{"alice", "mallory", "bystander"} {
		spec := s.setup.Spec(owner, false)
		dir := s.setup.Dir(spec, spec.Mounts[0].Name)
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // there may be many directories
			empty, err := removeAll(dir)
			if empty {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("empty a workspace: %v", err)
			}
		}
	}
}

// removeAll removes the entries of dir, and reports whether there were none.
func removeAll(dir string) (empty bool, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if rmErr := removeDeep(dir, e.Name()); rmErr != nil {
			err = rmErr
		}
	}
	return err == nil && len(entries) == 0, err
}

// removeDeep removes a tree of any depth. It moves each entry to the top before removing it, so that
// paths stay short.
func removeDeep(dir, name string) error {
	top := filepath.Join(dir, name)
	todo := []string{top}
	for n := 0; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			if err := os.Remove(at); err != nil {
				return err
			}
			continue
		}
		_ = os.Chmod(at, 0o700)
		entries, err := os.ReadDir(at)
		if err != nil {
			return err
		}
		for _, e := range entries {
			n++
			up := filepath.Join(dir, fmt.Sprintf(".removing.%d.%s", n, strings.Repeat("x", 8)))
			if err := os.Rename(filepath.Join(at, e.Name()), up); err != nil {
				return err
			}
			todo = append(todo, up)
		}
		if err := os.Remove(at); err != nil {
			return err
		}
	}
	return nil
}

// writeMarker writes a file named marker to dir, which identifies a mount.
func (s *scene) writeMarker(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "marker"), []byte("marker"), 0o644)
}

func backwards(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}
