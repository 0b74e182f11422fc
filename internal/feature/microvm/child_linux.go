//go:build amd64

package microvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/microvm/launcher"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// starter starts processes. The kernel kills them when its thread ends, which is when this
// process ends: a goroutine that is locked to a thread keeps it.
type starter struct {
	requests chan func()
	done     chan struct{}
}

func newStarter() *starter {
	s := &starter{requests: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		for {
			select {
			case f := <-s.requests:
				f()
			case <-s.done:
				return
			}
		}
	}()
	return s
}

// close ends the thread, and with it all processes that it started.
func (s *starter) close() { close(s.done) }

// do runs f on the thread.
func (s *starter) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case s.requests <- func() { result <- f() }:
		return <-result
	case <-s.done:
		return errors.New("the sandbox is closed")
	}
}

// child is a process in namespaces of its own.
type child struct {
	cmd    *exec.Cmd
	config *os.File // our end of its configuration
	log    *process.Tail
	done   chan struct{} // closed when it and all its processes have ended
}

// start starts a program by a launcher. files are its descriptors from launcher.ConfigFD+1 on;
// start does not close them.
func (s *starter) start(c launcher.Config, files ...*os.File) (*child, error) {
	attr, err := namespaces(c.Groups)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := &child{config: w, log: &process.Tail{}, done: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{launcher.Name}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		Stdout: p.log, Stderr: p.log, WaitDelay: time.Second,
		ExtraFiles: append([]*os.File{r}, files...), SysProcAttr: attr,
	}
	c.Files = len(files)
	if err := s.do(p.cmd.Start); err != nil {
		w.Close()
		return nil, fmt.Errorf("starting %s: %w", c.Args[0], err)
	}
	go func() {
		_ = p.cmd.Wait()
		w.Close()
		close(p.done)
	}()
	if err := json.NewEncoder(w).Encode(c); err != nil {
		p.kill()
		return nil, fmt.Errorf("starting %s: %w: %s", c.Args[0], err, p.log)
	}
	return p, nil
}

// namespaces returns those of a child, in which groups of the host exist. Those of this process
// have the ids of the host, and the kernel refuses to map one twice.
func namespaces(groups []int) (*syscall.SysProcAttr, error) {
	a, err := process.NewNamespaces()
	if err == nil && a.Credential != nil { // else it keeps the groups of this process
		for _, g := range groups {
			if !slices.ContainsFunc(a.GidMappings, func(m syscall.SysProcIDMap) bool {
				return m.ContainerID <= g &&
					g < m.ContainerID+m.Size
			}) {
				a.GidMappings = append(a.GidMappings, syscall.SysProcIDMap{ContainerID: g, HostID: g, Size: 1})
			}
		}
	}
	return a, err
}

// kill ends the process and waits for it.
func (p *child) kill() {
	if p != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
