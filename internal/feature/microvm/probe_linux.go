//go:build amd64

package microvm

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// The probe runs a program in two guests, and reads the restrictions of the processes on the
// host from the kernel.

//go:embed probe.py
var probeCode string

// attempts is the result of probe.py: of an attempt, the name of the error, "" on success.
type attempts struct {
	PID     int               `json:"pid"`
	Kernel  string            `json:"kernel"`
	Root    []string          `json:"root"`
	Outside string            `json:"outside"` // reading a file of the host
	Calls   map[string]string `json:"calls"`
	Unnamed string            `json:"unnamed"` // an unnamed file in the workspace
	Random  string            `json:"random"`
}

// probeResult has the observations of two guests, from inside and outside.
type probeResult struct {
	b         *Backend
	in, other attempts
	programs  map[string]confinement
	memory    sandbox.Outcome // of code above its limit
	opened    time.Duration
}

const probeTimeout = 2 * time.Minute

// Probe implements sandbox.Prober.
func (b *Backend) Probe(ctx context.Context) sandbox.Report {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r := sandbox.Report{Backend: "microvm"}
	p, err := b.probe(ctx)
	if err != nil {
		r.Layers = []sandbox.Layer{{Name: "virtual machine", State: "failed", Required: true, Detail: fault.Message(err),
			Remedy: fault.Hint(err)}}
		return r
	}
	r.Layers = p.layers()
	r.Working = !slices.ContainsFunc(r.Layers, func(l sandbox.Layer) bool { return l.Required && l.State == "failed" })
	return r
}

func (b *Backend) probe(ctx context.Context) (*probeResult, error) {
	dir, err := os.MkdirTemp(b.cfg.Roots["workspaces"], "_probe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	spec := sandbox.Spec{
		Owner: "(probe)", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: filepath.Base(dir)}},
		Limits: sandbox.Limits{MemoryBytes: 128 << 20, Processes: 32},
	}
	ids, err := process.TenantUIDs()
	if err != nil {
		return nil, err
	}
	if ids > 0 {
		spec.UID = process.FirstUID + ids - 1
		if err := os.Chown(dir, spec.UID, spec.UID); err != nil {
			return nil, err
		}
	}
	p := &probeResult{b: b}
	for _, in := range []*attempts{&p.in, &p.other} {
		if err := p.run(ctx, spec, in); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// run runs probe.py in a guest, and code above its limit.
func (p *probeResult) run(ctx context.Context, spec sandbox.Spec, in *attempts) error {
	began := time.Now()
	s, err := p.b.Open(ctx, spec)
	if err != nil {
		return err
	}
	defer s.Close()
	p.opened = time.Since(began)
	v := s.(*instance).vm
	p.programs = map[string]confinement{"QEMU": confinementOf(v.qemu), "virtiofsd": confinementOf(v.sharing)}
	vars, _ := json.Marshal(map[string]any{"canary": "/proc/1/cmdline", "limit": spec.Limits.MemoryBytes})
	out, err := s.Run(ctx, sandbox.Program{ID: "probe", Code: probeCode, Vars: vars}, sandbox.NoHost{})
	if err == nil && out.Status != sandbox.Completed {
		err = fmt.Errorf("the probe ended with status %s: %s %s", out.Status, out.Error, out.Traceback)
	}
	if err == nil {
		err = json.Unmarshal(out.Result, in)
	}
	if err != nil || p.memory.Status != "" {
		return err
	}
	p.memory, err = s.Run(ctx, sandbox.Program{ID: "probe", Code: sandbox.MemoryProbe, Vars: vars}, sandbox.NoHost{})
	return err
}

// confinement describes the isolation of a process on the host, as the kernel reports it.
type confinement struct {
	shared []string // namespaces that it has in common with this process
	status map[string]string
}

func confinementOf(p *child) confinement {
	pid := p.cmd.Process.Pid
	c := confinement{status: map[string]string{}}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		ours, err1 := os.Readlink("/proc/self/ns/" + ns)
		theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		if err1 != nil || err2 != nil || ours == theirs {
			c.shared = append(c.shared, ns)
		}
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		c.status[key] = strings.TrimSpace(value)
	}
	return c
}

func (p *probeResult) layers() []sandbox.Layer {
	list := []sandbox.Layer{p.machine()}
	for _, name := range slices.Sorted(maps.Keys(p.programs)) {
		list = append(list, p.program(name))
	}
	return append(list, p.network(), p.guest(), p.randomness(), p.limits(), p.uid(), p.unnamed(), processors)
}

func (p *probeResult) machine() sandbox.Layer {
	detail := fmt.Sprintf("the guest runs Linux %s with %d MB; numbers of files and processes are equal in all guests; a sandbox opened "+
		"in %d ms", p.in.Kernel, p.b.memorySize>>20, p.opened.Milliseconds())
	if p.b.cfg.Accel == TCG {
		return sandbox.Layer{Name: "virtual machine", State: "soft",
			Detail: "sandbox.microvm.accel is tcg: the processor is emulated, WHICH IS NOT AN ISOLATION BOUNDARY; " + detail,
			Remedy: "use tcg for tests only: set sandbox.microvm.accel to kvm"}
	}
	return sandbox.Tested("virtual machine", p.in.Kernel == p.b.kernel.version, "KVM; %s", detail)
}

func (p *probeResult) program(name string) sandbox.Layer {
	c := p.programs[name]
	ok := len(c.shared) == 0 && c.status["NoNewPrivs"] == "1" && c.status["Seccomp"] == "2"
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		ok = ok && c.status[set] != "" && strings.Trim(c.status[set], "0") == ""
	}
	uid, _, _ := strings.Cut(c.status["Uid"], "\t")
	return sandbox.Tested(name, ok, "uid %s; namespaces shared with the daemon: %v; capabilities %s; NoNewPrivs %s; Seccomp %s",
		uid, c.shared, c.status["CapEff"], c.status["NoNewPrivs"], c.status["Seccomp"])
}

func (p *probeResult) network() sandbox.Layer {
	return sandbox.Tested("network", p.in.Calls["socket"] != "" && p.in.Calls["vsock"] != "",
		"the guest has no network device; socket: %s; socket to the host: %s",
		sandbox.Attempted(p.in.Calls["socket"]), sandbox.Attempted(p.in.Calls["vsock"]))
}

func (p *probeResult) guest() sandbox.Layer {
	ok := p.in.Outside != "" && p.in.PID == 1 && len(p.in.Root) < 12
	var tried []string
	for _, name := range slices.Sorted(maps.Keys(p.in.Calls)) {
		ok = ok && p.in.Calls[name] != ""
		tried = append(tried, name+": "+sandbox.Attempted(p.in.Calls[name]))
	}
	return sandbox.Tested("lockdown in the guest", ok, "visible: %s; %s", strings.Join(p.in.Root, " "), strings.Join(tried, ", "))
}

func (p *probeResult) randomness() sandbox.Layer {
	return sandbox.Tested("random state", p.in.Random != "" && p.in.Random != p.other.Random,
		"two guests of the snapshot drew %.8s… and %.8s…", p.in.Random, p.other.Random)
}

func (p *probeResult) limits() sandbox.Layer {
	return sandbox.Tested("memory of all processes", p.memory.Limit == sandbox.LimitMemory,
		"cgroup v2 of the guest, whose memory is fixed; four processes above the limit: %s %s", p.memory.Status, p.memory.Limit)
}

func (p *probeResult) uid() sandbox.Layer {
	if first, err := process.FirstHostUID(); err != nil || first != 0 {
		return sandbox.Tested("own uid", err == nil, "virtiofsd of each tenant has its own host uid, from %d, QEMU another one", first)
	}
	return sandbox.Layer{Name: "own uid", State: "soft", Detail: "QEMU and virtiofsd of all tenants have the daemon's host uid; " +
		"namespaces isolate them",
		Remedy: "set sandbox.subordinate_uids: true if /etc/subuid grants ids to this user, or run as root"}
}

func (p *probeResult) unnamed() sandbox.Layer {
	l := sandbox.Layer{Name: "unnamed files", State: "missing",
		Detail: "virtiofs has none in the workspace (O_TMPFILE: " + sandbox.Attempted(p.in.Unnamed) + "); /tmp has them"}
	if p.in.Unnamed == "" {
		l.State, l.Detail = "enforced", "O_TMPFILE works in the workspace"
	}
	return l
}

var processors = sandbox.Layer{Name: "share of the processors", State: "soft",
	Detail: "each guest has one processor; guests of all tenants compete equally"}
