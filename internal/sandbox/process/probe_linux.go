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

// The probe runs a program in a real sandbox that attempts forbidden operations, and
// reads the restrictions of that process from the kernel.

//go:embed probe.py
var probeCode string

// attempts is the result of probe.py.
type attempts struct {
	PID       int               `json:"pid"`
	Root      []string          `json:"root"`
	Outside   string            `json:"outside"`   // error of reading a file of the host, "" on success
	Device    string            `json:"device"`    // error of opening /dev/zero for writing, which only Landlock denies
	Calls     map[string]string `json:"calls"`     // system call -> error name, "" on success
	Limits    map[string]int64  `json:"limits"`    // RLIMIT name -> value
	Memory    string            `json:"memory"`    // error of allocating above the limit
	Processes int               `json:"processes"` // number of successful forks
	Env       []string          `json:"env"`
}

// Probe implements sandbox.Prober.
func (b *Backend) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Backend: "process"}
	p, err := b.runProbe(ctx)
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

// probeResult is the state of one sandbox, seen from inside and outside.
type probeResult struct {
	b      *Backend
	limits sandbox.Limits
	in     attempts
	status map[string]string // /proc/<pid>/status of the worker
	shared []string          // namespaces it shares with the daemon
	group  int               // cgroup version
	kills  string            // outcome of several processes above the memory limit
}

const probeMemory = 128 << 20

func (b *Backend) runProbe(ctx context.Context) (*probeResult, error) {
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
	x := s.(*instance)
	canary := filepath.Join(b.cfg.State, "canary")
	if err := os.WriteFile(canary, []byte("seen"), 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(canary)
	vars, _ := json.Marshal(map[string]any{"canary": canary, "limit": spec.Limits.MemoryBytes})
	p := &probeResult{b: b, limits: spec.Limits.WithDefaults(b.cfg.Defaults), group: b.groups.version}
	pid := x.w.hostPID()
	p.status = procStatus(fmt.Sprintf("/proc/%d/status", pid))
	p.shared = sharedNamespaces(pid)
	out, err := s.Run(ctx, sandbox.Program{ID: "probe", Code: probeCode, Vars: vars}, sandbox.NoHost{})
	if err != nil {
		return nil, err
	}
	if out.Status != sandbox.Completed {
		return nil, fmt.Errorf("the probe ended with status %s: %s %s", out.Status, out.Error, out.Traceback)
	}
	if err := json.Unmarshal(out.Result, &p.in); err != nil {
		return nil, err
	}
	out, err = s.Run(ctx, sandbox.Program{ID: "probe", Code: sandbox.MemoryProbe, Vars: vars}, sandbox.NoHost{})
	p.kills = string(out.Status) + " " + out.Limit
	return p, err
}

// probeSpec returns a spec with an empty directory below the root "workspaces".
func (b *Backend) probeSpec() (sandbox.Spec, func(), error) {
	dir, err := os.MkdirTemp(b.cfg.Roots["workspaces"], "_probe-")
	if err != nil {
		return sandbox.Spec{}, nil, err
	}
	spec := sandbox.Spec{
		Owner: "(probe)", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: filepath.Base(dir)}},
		Limits: sandbox.Limits{MemoryBytes: probeMemory, Processes: 32},
	}
	if b.ids.tenants > 0 {
		spec.UID = FirstUID + b.ids.tenants - 1
		err = os.Chown(dir, spec.UID, spec.UID)
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

func (p *probeResult) layers() []sandbox.Layer {
	return []sandbox.Layer{
		p.namespaces(), p.root(), p.capabilities(), p.noNewPrivs(), p.seccomp(), p.landlock(), p.network(),
		p.rlimits(), p.memory(), p.processors(), p.uid(),
	}
}

func (p *probeResult) namespaces() sandbox.Layer {
	if len(p.shared) > 0 {
		return sandbox.Tested("namespaces", false, "shared with the daemon: %s", strings.Join(p.shared, ", "))
	}
	return sandbox.Tested("namespaces", p.in.PID == 1, "user, mount, pid, net, ipc, uts and cgroup are separate; it is pid %d", p.in.PID)
}

func (p *probeResult) root() sandbox.Layer {
	return sandbox.Tested("private root", p.in.Outside != "" && len(p.in.Root) < 12, "reading a file of the host: %s; visible: %s",
		sandbox.Attempted(p.in.Outside), strings.Join(p.in.Root, " "))
}

func (p *probeResult) capabilities() sandbox.Layer {
	var all []string
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(p.status[set], "0") != "" {
			all = append(all, set+" "+p.status[set])
		}
	}
	return sandbox.Tested("capabilities", len(all) == 0, "held: %s", joinOrNone(all))
}

func (p *probeResult) noNewPrivs() sandbox.Layer {
	return sandbox.Tested("no_new_privs", p.status["NoNewPrivs"] == "1", "NoNewPrivs is %s", p.status["NoNewPrivs"])
}

func (p *probeResult) seccomp() sandbox.Layer {
	ok := p.status["Seccomp"] == "2"
	var tried []string
	for call, errName := range p.in.Calls {
		ok = ok && errName != ""
		tried = append(tried, call+": "+sandbox.Attempted(errName))
	}
	return sandbox.Tested("seccomp", ok, "allow list; %s", strings.Join(tried, ", "))
}

func (p *probeResult) landlock() sandbox.Layer {
	if p.b.landlock == 0 {
		return sandbox.Layer{Name: "landlock", State: "missing",
			Detail: "this kernel has no Landlock; the private root and seccomp are in force without it",
			Remedy: "use kernel 5.13 or later with landlock among the security modules (lsm=landlock,…)"}
	}
	return sandbox.Tested("landlock", p.in.Device == "EACCES", "ABI %d; writing to a device: %s", p.b.landlock,
		sandbox.Attempted(p.in.Device))
}

// network checks the network namespace and that socket fails.
func (p *probeResult) network() sandbox.Layer {
	inherited := contains(p.shared, "net")
	interfaces, _ := net.Interfaces()
	of := "of the workers of a zygote"
	if p.b.cfg.OwnNamespaces {
		of = "of each worker"
	}
	return sandbox.Tested("network", !inherited && p.in.Calls["socket"] != "",
		"a namespace %s, lo down (the host has %d interfaces); socket: %s",
		of, len(interfaces), sandbox.Attempted(p.in.Calls["socket"]))
}

func (p *probeResult) rlimits() sandbox.Layer {
	ok := p.in.Limits["AS"] > 0 && p.in.Limits["DATA"] > 0 && p.in.Limits["NOFILE"] > 0 &&
		p.in.Limits["NOFILE"] <= int64(p.limits.OpenFiles) &&
		p.in.Memory == "MemoryError" && p.in.Processes < p.limits.Processes
	return sandbox.Tested("limits", ok, "allocating above %d MB: %s; %d of %d processes could be forked", p.limits.MemoryBytes>>20,
		sandbox.Attempted(p.in.Memory),
		p.in.Processes, p.limits.Processes)
}

func (p *probeResult) memory() sandbox.Layer {
	ended := strings.HasPrefix(p.kills, string(sandbox.OverLimit))
	if p.group > 0 {
		return sandbox.Tested("memory of all processes", ended, "cgroup v%d; four processes above the limit: %s", p.group, p.kills)
	}
	l := sandbox.Tested("memory of all processes", ended, "no cgroup (%s): the daemon measures and kills; four processes above the "+
		"limit: %s", p.b.groups.why, p.kills)
	if ended {
		l.State = "soft"
	}
	l.Remedy = "start sandpiper where cgroups are delegated: systemd-run --user --scope -p Delegate=yes sandpiper …, or as root"
	if size := p.b.socketBytes; size > 2*usualSocketBytes {
		l.Detail += fmt.Sprintf("; each socket of code counts as %d KB, since it can hold net.core.wmem_default", size>>10)
		l.Remedy += "; without a cgroup, lower net.core.wmem_default (sysctl), or code with few sockets reaches its memory limit"
	}
	return l
}

func (p *probeResult) processors() sandbox.Layer {
	if p.b.groups.hasWeights {
		return sandbox.Tested("share of the processors", true, "cgroup v%d: tenants have equal shares, however many programs they run",
			p.b.groups.version)
	}
	return sandbox.Layer{Name: "share of the processors", State: "soft",
		Detail: "no cgroup with weights: the more programs a tenant runs, the lower their priority (nice, ioprio)",
		Remedy: "start sandpiper where the cpu controller is delegated: systemd-run --user --scope -p Delegate=yes sandpiper …, or as root"}
}

func (p *probeResult) uid() sandbox.Layer {
	if p.b.ids.tenants > 0 {
		return sandbox.Tested("own uid", true, "each tenant has its own host uid, from %d", p.b.ids.outside)
	}
	return sandbox.Layer{Name: "own uid", State: "soft", Detail: "all tenants share the daemon's host uid; namespaces isolate them",
		Remedy: "set sandbox.subordinate_uids: true if /etc/subuid grants ids to this user, or run as root"}
}

func joinOrNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
