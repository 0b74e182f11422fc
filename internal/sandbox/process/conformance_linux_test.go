package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	h := newHost(t)
	setup := conformance(h)
	descriptors, _ := os.ReadDir("/proc/self/fd")
	t.Cleanup(func() { checkReleased(t, h, len(descriptors)) }) // after the backend is closed
	sandboxtest.Run(t, setup)
}

// checkReleased reports resources that a closed backend did not release.
func checkReleased(t *testing.T, h *host, descriptors int) {
	if now, _ := os.ReadDir("/proc/self/fd"); len(now) > descriptors {
		t.Errorf("%d descriptors are open, before the suite %d", len(now), descriptors)
	}
	if pids := descendants(os.Getpid(), nil); len(pids) > 1 {
		t.Errorf("processes are left: %v", pids[1:])
	}
	if locks, _ := filepath.Glob(filepath.Join(h.cfg.State, "*")); len(locks) > 0 {
		t.Errorf("files are left in the state directory: %v", locks)
	}
}

// Workers of a zygote with preloaded modules are made in another way: see apart_linux.go.
func TestConformanceWithPreload(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	h.cfg.Preload = []string{"present"}
	setup := conformance(h)
	setup.CanDisable = func(string) bool { return false }
	sandboxtest.Run(t, setup)
}

func TestAttacksSucceedWithoutLayers(t *testing.T) {
	longtest.Skip(t)
	sandboxtest.RunUnprotected(t, conformance(newHost(t)))
}

func TestEachLayerAloneStopsTheAttack(t *testing.T) {
	longtest.Skip(t)
	sandboxtest.RunSingleLayer(t, conformance(newHost(t)))
}

func TestOwnNamespacesStopTheAttack(t *testing.T) {
	h := newHost(t)
	h.cfg.OwnNamespaces = true
	sandboxtest.RunOwnNamespaces(t, conformance(h))
}

func TestWorkersHaveOwnNamespaces(t *testing.T) {
	h := newHost(t)
	for _, own := range []bool{false, true} {
		b := h.backend(func(c *Config) { c.OwnNamespaces = own })
		if out := h.run(b, h.spec("a"), "6*7"); string(out.Result) != "42" {
			t.Errorf("%+v", out)
		}
		for _, name := range []string{"net", "ipc"} {
			want := 1
			for limit := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) { // workers are forked in the background
				pids := append(b.pool.waitingPIDs(), pidOf(b.zygoteNow().pidfd))
				if own {
					want = len(pids)
				}
				different := map[string]bool{}
				for _, pid := range pids {
					link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
					different[link] = true
				}
				if len(pids) > 2 && len(different) == want {
					break
				}
				if time.Now().After(limit) {
					t.Fatalf("own %v: a zygote and %d workers have %d %s namespaces, want %d", own, len(pids)-1, len(different), name, want)
				}
			}
		}
	}
}

func TestEpollOnRequest(t *testing.T) {
	h := newHost(t)
	const code = `
import os, select
watched, (r, w) = select.epoll(), os.pipe()
watched.register(r, select.EPOLLIN)
os.write(w, b"x")
result = watched.poll(5) == [(r, select.EPOLLIN)]`
	for _, allowed := range []bool{false, true} {
		b := h.backend(func(c *Config) { c.Epoll = allowed })
		if out := h.run(b, h.spec("a"), code); (string(out.Result) == "true") != allowed {
			t.Errorf("allowed %v: %+v", allowed, out)
		}
	}
}

func TestCasesAreComplete(t *testing.T) { sandboxtest.TestCases(t) }

// conformance returns the setup of the suite on h.
func conformance(h *host) sandboxtest.Setup {
	h.packages(map[string]string{"present.py": "here = True\n"})
	mounts := read("/proc/self/mountinfo")
	b := h.backend(nil)
	granted := b.groups.version > 0
	b.Close()
	return sandboxtest.Setup{
		Open: func(t testing.TB, off ...string) sandbox.Backend {
			if len(off) == 0 {
				return (&host{t: t, roots: h.roots, cfg: h.cfg}).backend(nil)
			}
			cfg := h.cfg
			cfg.Disabled = off
			b, err := New(cfg)
			if err != nil {
				t.Fatalf("without %v: %v", off, err) // no reason to skip: with all layers there was a backend
			}
			t.Cleanup(func() { b.Close() })
			return b
		},
		Spec: func(owner string, oneUID bool) sandbox.Spec {
			s := h.spec(owner)
			if oneUID {
				s.UID = h.spec("shared").UID
				h.own(s.UID, owner)
			}
			return s
		},
		Dir: func(spec sandbox.Spec, name string) string {
			_ = os.Mkdir(filepath.Join(h.cfg.Roots["workspaces"], name), 0o700)
			h.own(spec.UID, name)
			return filepath.Join(h.cfg.Roots["workspaces"], name)
		},
		Leftovers: func(b sandbox.Backend) string {
			if now := read("/proc/self/mountinfo"); now != mounts {
				return "the host's mounts changed: " + now
			}
			return left(b.(*Backend))
		},
		CanDisable: func(layer string) bool { return layer != "user" || tenantUIDs(h.t) > 0 },
		IsWeak:     func(layer string) bool { return layer == "cgroups" && !granted },
	}
}

func (h *host) own(uid int, name string) {
	if uid != 0 {
		if err := os.Chown(filepath.Join(h.cfg.Roots["workspaces"], name), uid, uid); err != nil {
			h.t.Fatal(err)
		}
	}
}

func read(file string) string {
	b, _ := os.ReadFile(file)
	return string(b)
}

// left reports processes other than the keeper, the zygote and the waiting workers.
func left(b *Backend) string {
	b.mu.Lock()
	zygote, keeper := pidOf(b.zygote.pidfd), b.keeper.cmd.Process.Pid
	b.mu.Unlock()
	waiting := b.pool.waitingPIDs()
	expected := append([]int{keeper, zygote}, waiting...)
	for _, pid := range descendants(keeper, nil) {
		if !slices.Contains(expected, pid) {
			return fmt.Sprintf("process %d: %s", pid, strings.ReplaceAll(read(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " "))
		}
	}
	return b.groups.left(len(waiting))
}

// waitingPIDs returns the pids of the workers in the pool.
func (p *pool) waitingPIDs() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []int
	for _, w := range p.idle {
		pids = append(pids, w.hostPID())
	}
	for _, list := range p.ready {
		for _, w := range list {
			pids = append(pids, w.hostPID())
		}
	}
	return pids
}

// left reports cgroups other than those of waiting workers and free ones.
func (c *cgroups) left(waiting int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.free {
		if procs := read(filepath.Join(g.dirs[0], "cgroup.procs")); procs != "" {
			return "processes in a free cgroup: " + procs
		}
	}
	for _, base := range c.bases {
		dirs, _ := filepath.Glob(filepath.Join(base, "w*"))
		if len(dirs) > len(c.free)+waiting {
			return fmt.Sprintf("%d cgroups for %d free ones and %d waiting workers", len(dirs), len(c.free), waiting)
		}
		if deeper, _ := filepath.Glob(filepath.Join(base, "w*", "*", "cgroup.procs")); len(deeper) > 0 {
			return "cgroups in cgroups: " + deeper[0]
		}
	}
	return ""
}
