package gvisor

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// The probe runs a program in a real sandbox that attempts forbidden operations, and those in
// which gVisor differs from the process backend.

//go:embed probe.py
var probeCode string

// attempts is the result of probe.py. An outcome is the name of an error, "" on success.
type attempts struct {
	Release   string            `json:"release"` // of the kernel that code sees
	PID       int               `json:"pid"`
	IDs       []int             `json:"ids"`
	Root      []string          `json:"root"`
	Outside   string            `json:"outside"` // of reading a file of the host
	Device    string            `json:"device"`  // of opening /dev/zero for writing
	Devices   []string          `json:"devices"`
	Calls     map[string]string `json:"calls"` // by system call
	Limits    map[string]int64  `json:"limits"`
	Memory    string            `json:"memory"`    // of allocating above the limit
	Processes int               `json:"processes"` // successful forks
	Files     int               `json:"files"`     // created in /tmp
	Priority  string            `json:"priority"`  // of raising it
	Unnamed   string            `json:"unnamed"`   // of opening an unnamed file
}

// Probe implements sandbox.Prober.
func (b *Backend) Probe(ctx context.Context) sandbox.Report {
	p, err := b.runProbe(ctx)
	if err != nil {
		return Diagnose(err)
	}
	r := sandbox.Report{Backend: "gvisor", Layers: p.layers()}
	r.Working = !slices.ContainsFunc(r.Layers, func(l sandbox.Layer) bool { return l.Required && l.State == "failed" })
	return r
}

// Diagnose returns the report of a host on which New failed with err.
func Diagnose(err error) sandbox.Report {
	return sandbox.Report{Backend: "gvisor", Layers: []sandbox.Layer{
		{Name: "runsc", State: "failed", Required: true, Detail: err.Error(), Remedy: fault.Hint(err)},
	}}
}

type probeResult struct {
	b      *Backend
	limits sandbox.Limits
	in     attempts
	host   string // release of the host's kernel
	kills  string // outcome of several processes above the memory limit
}

func (b *Backend) runProbe(ctx context.Context) (*probeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	spec, clean, err := b.probeSpec()
	if err != nil {
		return nil, err
	}
	defer clean()
	g, err := b.start(ctx, spec) // the pool would keep others for this spec
	if err != nil {
		return nil, err
	}
	s := &instance{b: b, g: g, limits: spec.Limits}
	defer s.Close()
	canary := filepath.Join(b.cfg.State, "canary")
	if err := os.WriteFile(canary, []byte("seen"), 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(canary)
	vars, _ := json.Marshal(map[string]any{"canary": canary, "limit": spec.Limits.MemoryBytes})
	p := &probeResult{b: b, limits: spec.Limits, host: hostRelease()}
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

func hostRelease() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}

func (p *probeResult) layers() []sandbox.Layer {
	in := p.in
	ids := in.PID == 1 && slices.Equal(in.IDs, []int{65534, 65534})
	limits := in.Limits["AS"] > 0 && in.Limits["NOFILE"] > 0 && in.Limits["NOFILE"] <= int64(p.limits.OpenFiles) &&
		in.Memory == "MemoryError" && in.Processes < p.limits.Processes
	return []sandbox.Layer{
		sandbox.Tested("runsc", true, "%s, version %s, platform systrap", p.b.program.path, p.b.program.version),
		sandbox.Tested("second kernel", in.Release != p.host, "code sees kernel %s, the host has %s", in.Release, p.host),
		sandbox.Tested("private root", in.Outside != "", "reading a file of the host: %s; visible: %s", sandbox.Attempted(in.Outside),
			strings.Join(in.Root, " ")),
		sandbox.Tested("identity", ids, "code is pid %d and has the ids %v", in.PID, in.IDs),
		p.seccomp(),
		sandbox.Tested("network", in.Calls["socket"] != "", "gVisor has none; socket: %s", sandbox.Attempted(in.Calls["socket"])),
		sandbox.Tested("limits", limits, "allocating above %d MB: %s; %d of %d processes could be forked", p.limits.MemoryBytes>>20,
			sandbox.Attempted(in.Memory), in.Processes, p.limits.Processes),
		p.memory(),
		p.uid(),
		limitation("landlock", in.Device == "", "gVisor does not have it: writing to /dev/zero: %s. The devices are those of gVisor: %s",
			sandbox.Attempted(in.Device), strings.Join(in.Devices, " ")),
		limitation("number of files in /tmp", in.Files > 20_000, "%d could be created; their memory counts towards the memory limit",
			in.Files),
		limitation("unnamed files", in.Unnamed != "", "O_TMPFILE: %s", sandbox.Attempted(in.Unnamed)),
		limitation("priority", in.Priority == "", "raising it after lowering it: %s; it has no effect outside of the sandbox",
			sandbox.Attempted(in.Priority)),
		{Name: "share of the processors", State: "missing", Detail: "a tenant that runs more programs gets more processor time"},
	}
}

// limitation is a layer that gVisor lacks if differs is set.
func limitation(name string, differs bool, detail string, args ...any) sandbox.Layer {
	l := sandbox.Layer{Name: name, State: "enforced", Detail: fmt.Sprintf(detail, args...)}
	if differs {
		l.State = "missing"
	}
	return l
}

func (p *probeResult) seccomp() sandbox.Layer {
	ok := true
	var tried []string
	for call, name := range p.in.Calls {
		ok = ok && name != ""
		tried = append(tried, call+": "+sandbox.Attempted(name))
	}
	slices.Sort(tried)
	return sandbox.Tested("seccomp", ok, "allow list inside; %s", strings.Join(tried, ", "))
}

func (p *probeResult) memory() sandbox.Layer {
	ended := strings.HasPrefix(p.kills, string(sandbox.OverLimit))
	version, why := p.b.groups.Version()
	if version > 0 {
		return sandbox.Tested("memory of all processes", ended,
			"the daemon measures and kills, with cgroup v%d above it; four processes above the limit: %s", version, p.kills)
	}
	l := sandbox.Tested("memory of all processes", ended, "no cgroup (%s): the daemon measures and kills; four processes above the "+
		"limit: %s", why, p.kills)
	if ended {
		l.State = "soft"
	}
	l.Remedy = "start sandpiper where cgroups are delegated: systemd-run --user --scope -p Delegate=yes sandpiper …, or as root"
	return l
}

func (p *probeResult) uid() sandbox.Layer {
	if first, err := process.FirstHostUID(); err != nil || first != 0 {
		return sandbox.Tested("own uid", err == nil, "files of each tenant have their own host uid, from %d; runsc itself runs as root",
			first)
	}
	return sandbox.Layer{Name: "own uid", State: "soft", Detail: "all tenants share the daemon's host uid; gVisor isolates them",
		Remedy: "set sandbox.subordinate_uids: true if /etc/subuid grants ids to this user, or run as root"}
}
