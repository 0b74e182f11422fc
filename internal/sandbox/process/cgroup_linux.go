package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// cgroups assigns a cgroup to each worker if the host grants one: version 2, version
// 1, or none. A group is reused after its processes have ended, since creating one
// takes longer than the rest of a worker's cleanup.
type cgroups struct {
	version    int // 2, 1 or 0 for none
	why        string
	bases      []string // one directory per hierarchy, used by this daemon only
	hasWeights bool     // groups have CPU weights
	next       atomic.Int64

	mu   sync.Mutex
	free []*group
}

// openCgroups detects the available cgroup version. name is unique to this daemon. It fails if
// descriptors were short: the limits without cgroups are weaker.
func openCgroups(name string) (*cgroups, error) {
	c := &cgroups{}
	v2err := c.tryV2(name)
	if v2err == nil {
		return c, nil
	}
	v1err := c.tryV1(name)
	if v1err == nil {
		return c, nil
	}
	if err := errors.Join(v2err, v1err); fault.NoDescriptors(err) {
		return c, late(err)
	}
	c.why = fmt.Sprintf("v2: %v; v1: %v", v2err, v1err)
	return c, nil
}

func (c *cgroups) tryV2(name string) error {
	own, err := ownGroup("")
	if err != nil {
		return err
	}
	mount, err := mountOf("cgroup2", "")
	if err != nil {
		return err
	}
	parent := filepath.Join(mount, own)
	have, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(have), "memory") || !strings.Contains(string(have), "pids") {
		return errors.New("the memory and pids controllers are not delegated")
	}
	base := filepath.Join(parent, name)
	if err := os.Mkdir(base, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{parent, base} {
		if err := writeFile(dir, "cgroup.subtree_control", "+memory +pids"); err != nil {
			os.Remove(base)
			return err
		}
	}
	c.version, c.bases = 2, []string{base}
	c.hasWeights = writeFile(parent, "cgroup.subtree_control", "+cpu") == nil && writeFile(base, "cgroup.subtree_control", "+cpu") == nil
	return nil
}

func (c *cgroups) tryV1(name string) error {
	var bases []string
	for _, controller := range []string{"memory", "pids"} {
		mount, err := mountOf("cgroup", controller)
		if err == nil {
			var own string
			if own, err = ownGroup(controller); err == nil {
				base := filepath.Join(mount, own, name)
				if err = os.Mkdir(base, 0o755); err == nil {
					bases = append(bases, base)
				}
			}
		}
		if err != nil {
			removeAll(bases)
			return err
		}
	}
	c.version, c.bases = 1, bases
	c.tryV1CPU(name)
	return nil
}

// tryV1CPU adds the cpu hierarchy if there is one.
func (c *cgroups) tryV1CPU(name string) {
	mount, err := mountOf("cgroup", "cpu")
	if err != nil {
		return
	}
	own, err := ownGroup("cpu")
	if err != nil {
		return
	}
	base := filepath.Join(mount, own, name)
	if os.Mkdir(base, 0o755) != nil {
		return
	}
	// All sandboxes together have the weight of one process per processor.
	if writeFile(base, "cpu.shares", strconv.Itoa(defaultShares*runtime.NumCPU())) != nil {
		removeAll([]string{base})
		return
	}
	c.bases, c.hasWeights = append(c.bases, base), true
}

// ownGroup returns our group in the hierarchy of controller; "" is version 2.
func ownGroup(controller string) (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && (part[1] == controller || controller != "" && contains(strings.Split(part[1], ","), controller)) {
			return part[2], nil
		}
	}
	return "", fmt.Errorf("no %q hierarchy", controller)
}

// mountOf returns where a hierarchy is mounted.
func mountOf(fstype, controller string) (string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		field := strings.Fields(s.Text())
		if len(field) > 3 && field[2] == fstype && (controller == "" || contains(strings.Split(field[3], ","), controller)) {
			return field[1], nil
		}
	}
	return "", fmt.Errorf("%s %s is not mounted", fstype, controller)
}

func writeFile(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// take returns an empty group, or nil without cgroups.
func (c *cgroups) take() (*group, error) {
	if c.version == 0 {
		return nil, nil
	}
	c.mu.Lock()
	if n := len(c.free); n > 0 {
		g := c.free[n-1]
		c.free = c.free[:n-1]
		c.mu.Unlock()
		return g, nil
	}
	c.mu.Unlock()
	return c.make()
}

func (c *cgroups) make() (*group, error) {
	name := fmt.Sprintf("w%d", c.next.Add(1))
	g := &group{}
	for _, base := range c.bases {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			g.remove()
			return nil, err
		}
		g.dirs = append(g.dirs, dir)
		fd, err := unix.Open(filepath.Join(dir, c.joinFile()), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			g.remove()
			return nil, err
		}
		g.join = append(g.join, fd)
	}
	peak, oom := "memory.max_usage_in_bytes", "memory.oom_control"
	if c.version == 2 {
		peak, oom = "memory.peak", "memory.events"
		_ = writeFile(g.dirs[0], "memory.oom.group", "1")
	}
	var err error
	if g.oom, err = os.Open(filepath.Join(g.dirs[0], oom)); err != nil {
		g.remove()
		return nil, err
	}
	// cgroup v2 has it since Linux 5.19, writable (to reset) since 6.12
	g.peak, _ = os.OpenFile(filepath.Join(g.dirs[0], peak), os.O_RDWR, 0)
	if c.version == 2 { // it has it without the cpu controller too
		g.usage, _ = os.Open(filepath.Join(g.dirs[0], "cpu.stat"))
	}
	if c.hasWeights {
		name := "cpu.shares"
		if c.version == 2 {
			name = "cpu.weight"
		}
		if g.weight, err = os.OpenFile(filepath.Join(g.dirs[len(g.dirs)-1], name), os.O_WRONLY, 0); err != nil {
			g.remove()
			return nil, err
		}
	}
	return g, nil
}

// joinFile returns the file of a group that a worker writes to. cgroup.procs moves all
// threads of a process, for which the kernel first stops all forks of the host: it
// waits 7 to 20 ms for an RCU grace period. A worker joins when it has one thread, for
// which tasks, which only version 1 has, does the same at once.
func (c *cgroups) joinFile() string {
	if c.version == 1 {
		return "tasks"
	}
	return "cgroup.procs"
}

// The default CPU weight of a group, in the two versions.
const (
	defaultShares = 1024
	defaultWeight = 100
)

// setWeightDivisor sets the weight of the group to a fraction of the default.
func (c *cgroups) setWeightDivisor(g *group, by int) error {
	if g.weight == nil || max(1, g.divisor) == by {
		return nil
	}
	weight := defaultShares
	if c.version == 2 {
		weight = defaultWeight
	}
	_, err := g.weight.WriteAt([]byte(strconv.Itoa(max(2, weight/by))), 0)
	if err == nil {
		g.divisor = by
	}
	return err
}

// limit sets the limits of the group before its worker runs anything.
func (c *cgroups) limit(g *group, memory int64, processes int) error {
	want := [2]int64{memory, int64(processes)}
	if g == nil || g.limits == want {
		return nil
	}
	m, p := strconv.FormatInt(memory, 10), strconv.Itoa(processes)
	var err error
	if c.version == 2 {
		_ = writeFile(g.dirs[0], "memory.swap.max", "0")
		err = errors.Join(writeFile(g.dirs[0], "memory.max", m), writeFile(g.dirs[0], "pids.max", p))
	} else {
		// with swap accounting, memsw must never be below the memory limit
		_ = writeFile(g.dirs[0], "memory.memsw.limit_in_bytes", "-1")
		err = errors.Join(writeFile(g.dirs[0], "memory.limit_in_bytes", m), writeFile(g.dirs[1], "pids.max", p))
		_ = writeFile(g.dirs[0], "memory.memsw.limit_in_bytes", m)
	}
	if err == nil {
		g.limits = want
	}
	return err
}

// start resets the statistics of earlier workers of the group.
func (c *cgroups) start(g *group) {
	if g == nil {
		return
	}
	g.kills = g.oomKills()
	if g.peak != nil {
		_, err := g.peak.WriteAt([]byte("0"), 0)
		g.reset = err == nil
	}
}

// canFreeze reports whether groups can be frozen. For version 1, see freeze_linux.go.
func (c *cgroups) canFreeze() bool { return c.version == 2 }

// put returns a group whose processes have ended. A group that cannot be thawed is
// removed, since it would freeze the next worker.
func (c *cgroups) put(g *group) {
	if g == nil {
		return
	}
	if g.frozen && g.freeze(false) != nil {
		g.remove()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < 64 && c.version != 0 {
		c.free = append(c.free, g)
		return
	}
	g.remove()
}

func (c *cgroups) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.free {
		g.remove()
	}
	c.free = nil
	removeAll(c.bases)
	c.bases, c.version = nil, 0
}

// removeAll removes groups and the groups in them; groups with processes stay.
func removeAll(dirs []string) {
	for _, dir := range dirs {
		children, _ := filepath.Glob(filepath.Join(dir, "w*"))
		for _, child := range children {
			_ = os.Remove(child)
		}
		_ = os.Remove(dir)
	}
}

// removeGroupsOf removes the groups of a dead daemon of that name.
func removeGroupsOf(name string) {
	var dirs []string
	for _, h := range []struct{ fstype, controller string }{{"cgroup2", ""}, {"cgroup", "memory"}, {"cgroup", "pids"}, {"cgroup", "cpu"}} {
		mount, err := mountOf(h.fstype, h.controller)
		if err != nil {
			continue
		}
		// the dead daemon may have run in another cgroup
		_ = filepath.WalkDir(mount, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == name {
				dirs = append(dirs, path)
				return filepath.SkipDir
			}
			return nil
		})
	}
	removeAll(dirs)
}
