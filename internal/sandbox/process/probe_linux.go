package process

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The probe runs a program in a real sandbox that tries what must be
// impossible, and reads from the kernel what that very process is held by.

//go:embed probe.py
var probeCode string

// attempts is what probe.py answers.
type attempts struct {
	PID       int               `json:"pid"`
	Root      []string          `json:"root"`
	Outside   string            `json:"outside"`   // "" if a file of the host could be read, else the error
	Device    string            `json:"device"`    // opening /dev/zero for writing: only Landlock forbids it
	Calls     map[string]string `json:"calls"`     // system call -> error name, "" if it went through
	Limits    map[string]int64  `json:"limits"`    // RLIMIT name -> value
	Memory    string            `json:"memory"`    // allocating past the limit
	Processes int               `json:"processes"` // how many could be forked
	Env       []string          `json:"env"`
}

// Probe reports what holds a sandbox on this host, by trying.
func (b *Backend) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Backend: "process"}
	p, err := b.try(ctx)
	if err != nil {
		r = Diagnose(err)
		return r
	}
	r.Layers = p.layers()
	r.Working = true
	for _, l := range r.Layers {
		if l.Required && l.State == "failed" {
			r.Working = false
		}
	}
	return r
}

// probed is what was seen of one sandbox from inside and outside.
type probed struct {
	b      *Backend
	limits sandbox.Limits
	in     attempts
	status map[string]string // /proc/<pid>/status of the worker
	shared []string          // namespaces it shares with the daemon
	group  int               // cgroup version
	kills  string            // outcome of a family of processes past its memory
}

const probeMemory = 128 << 20

func (b *Backend) try(ctx context.Context) (*probed, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	spec, clean, err := b.probeSpec()
	if err != nil {
		return nil, err
	}
	defer clean()
	s, err := b.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	x := s.(*box)
	canary := filepath.Join(b.cfg.State, "canary")
	if err := os.WriteFile(canary, []byte("seen"), 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(canary)
	vars, _ := json.Marshal(map[string]any{"canary": canary, "limit": spec.Limits.MemoryBytes})
	p := &probed{b: b, limits: fill(spec.Limits, b.cfg.Defaults), group: b.groups.version}
	pid := x.w.hostPID()
	p.status = procStatus(fmt.Sprintf("/proc/%d/status", pid))
	p.shared = sharedNamespaces(pid)
	out, err := s.Run(ctx, sandbox.Program{ID: "probe", Code: probeCode, Vars: vars}, silent{})
	if err != nil {
		return nil, err
	}
	if out.Status != sandbox.Completed {
		return nil, fmt.Errorf("the probe ended as %s: %s %s", out.Status, out.Error, out.Traceback)
	}
	if err := json.Unmarshal(out.Result, &p.in); err != nil {
		return nil, err
	}
	out, err = s.Run(ctx, sandbox.Program{ID: "probe", Code: familyCode, Vars: vars}, silent{})
	p.kills = string(out.Status) + " " + out.Limit
	return p, err
}

// familyCode holds twice the limit in four processes, each well below it.
const familyCode = `
import os, time
for i in range(4):
    if os.fork() == 0:
        held = b"x" * (limit // 2)
        time.sleep(2)
        os._exit(0)
time.sleep(1.5)
`

// silent is a Host that knows no method.
type silent struct{}

func (silent) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, fmt.Errorf("no calls while probing")
}
func (silent) Output([]byte) error { return nil }

// probeSpec is a sandbox over an empty directory beneath the first root.
func (b *Backend) probeSpec() (sandbox.Spec, func(), error) {
	dir, err := os.MkdirTemp(b.cfg.Roots["workspaces"], "_probe-")
	if err != nil {
		return sandbox.Spec{}, nil, err
	}
	spec := sandbox.Spec{
		Owner: "_probe", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: filepath.Base(dir)}},
		Limits: sandbox.Limits{MemoryBytes: probeMemory, Processes: 32},
	}
	if b.ids.root {
		spec.UID = LastUID
		err = os.Chown(dir, LastUID, LastUID)
	}
	return spec, func() { _ = os.RemoveAll(dir) }, err
}

func sharedNamespaces(pid int) []string {
	var shared []string
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		ours, err1 := os.Readlink("/proc/self/ns/" + ns)
		theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		if err1 != nil || err2 != nil || ours == theirs {
			shared = append(shared, ns)
		}
	}
	return shared
}

func (p *probed) layers() []sandbox.Layer {
	return []sandbox.Layer{
		p.namespaces(), p.root(), p.capabilities(), p.noNewPrivs(), p.seccomp(), p.landlock(), p.network(),
		p.rlimits(), p.memory(), p.processors(), p.uid(),
	}
}

func layer(name string, ok bool, detail string, args ...any) sandbox.Layer {
	l := sandbox.Layer{Name: name, State: "enforced", Required: true, Detail: fmt.Sprintf(detail, args...)}
	if !ok {
		l.State = "failed"
	}
	return l
}

func (p *probed) namespaces() sandbox.Layer {
	if len(p.shared) > 0 {
		return layer("namespaces", false, "shared with the daemon: %s", strings.Join(p.shared, ", "))
	}
	return layer("namespaces", p.in.PID == 1, "user, mount, pid, net, ipc, uts and cgroup are its own; it is pid %d", p.in.PID)
}

func (p *probed) root() sandbox.Layer {
	return layer("private root", p.in.Outside != "" && len(p.in.Root) < 12, "a file of the host: %s; it sees %s", went(p.in.Outside), strings.Join(p.in.Root, " "))
}

func (p *probed) capabilities() sandbox.Layer {
	var held []string
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(p.status[set], "0") != "" {
			held = append(held, set+" "+p.status[set])
		}
	}
	return layer("capabilities", len(held) == 0, "held: %s", noneIf(held))
}

func (p *probed) noNewPrivs() sandbox.Layer {
	return layer("no_new_privs", p.status["NoNewPrivs"] == "1", "NoNewPrivs is %s", p.status["NoNewPrivs"])
}

func (p *probed) seccomp() sandbox.Layer {
	ok := p.status["Seccomp"] == "2"
	var tried []string
	for call, errName := range p.in.Calls {
		ok = ok && errName != ""
		tried = append(tried, call+": "+went(errName))
	}
	return layer("seccomp", ok, "allow list; %s", strings.Join(tried, ", "))
}

func (p *probed) landlock() sandbox.Layer {
	if p.b.landlock == 0 {
		return sandbox.Layer{Name: "landlock", State: "missing", Detail: "this kernel has no Landlock; the private root and seccomp stand without it",
			Remedy: "use kernel 5.13 or later with landlock among the security modules (lsm=landlock,…)"}
	}
	return layer("landlock", p.in.Device == "EACCES", "ABI %d; writing to a device: %s", p.b.landlock, went(p.in.Device))
}

// network tries from outside too: a listener of the daemon's own is what the
// worker would have to reach.
func (p *probed) network() sandbox.Layer {
	inherited := contains(p.shared, "net")
	interfaces, _ := net.Interfaces()
	return layer("network", !inherited && p.in.Calls["socket"] != "", "its own namespace, lo down (the host has %d interfaces); socket: %s",
		len(interfaces), went(p.in.Calls["socket"]))
}

func (p *probed) rlimits() sandbox.Layer {
	ok := p.in.Limits["AS"] == p.limits.MemoryBytes && p.in.Limits["NOFILE"] == int64(p.limits.OpenFiles) &&
		p.in.Memory == "MemoryError" && p.in.Processes < p.limits.Processes
	return layer("limits", ok, "allocating past %d MB: %s; %d of %d processes could be forked", p.limits.MemoryBytes>>20, went(p.in.Memory),
		p.in.Processes, p.limits.Processes)
}

func (p *probed) memory() sandbox.Layer {
	ended := strings.HasPrefix(p.kills, string(sandbox.OverLimit))
	if p.group > 0 {
		return layer("memory of all processes", ended, "cgroup v%d; four processes past the limit: %s", p.group, p.kills)
	}
	l := layer("memory of all processes", ended, "no cgroup (%s): the daemon watches and kills; four processes past the limit: %s", p.b.groups.why, p.kills)
	if ended {
		l.State = "soft"
	}
	l.Remedy = "start sandpiper where cgroups are delegated: systemd-run --user --scope -p Delegate=yes sandpiper …, or as root"
	return l
}

func (p *probed) processors() sandbox.Layer {
	if p.b.groups.weighs {
		return layer("share of the processors", true, "cgroup v%d: tenants have equal shares, however many programs they run", p.b.groups.version)
	}
	return sandbox.Layer{Name: "share of the processors", State: "soft", Detail: "no cgroup with weights: the more programs a tenant runs, the less urgent they are (nice, ioprio)",
		Remedy: "start sandpiper where the cpu controller is delegated: systemd-run --user --scope -p Delegate=yes sandpiper …, or as root"}
}

func (p *probed) uid() sandbox.Layer {
	if p.b.ids.root {
		return layer("own uid", true, "each tenant has a host uid of its own, from %d", FirstUID)
	}
	return sandbox.Layer{Name: "own uid", State: "soft", Detail: "every tenant has the daemon's host uid; namespaces keep them apart",
		Remedy: "run as root to give each tenant a uid of its own"}
}

func went(errName string) string {
	if errName == "" {
		return "went through"
	}
	return errName
}

func noneIf(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
