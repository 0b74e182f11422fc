package process

import (
	"os"
	"path/filepath"
	"strings"
)

// group is the cgroup of one worker, in every hierarchy.
type group struct {
	dirs      []string
	join      []int // open files of each directory, to which a worker writes "0" to join
	peak, oom *os.File
	usage     *os.File // CPU time; cgroup v2 only
	weight    *os.File // nil without CPU weights
	divisor   int      // of the default weight, as written; 0 means 1
	reset     bool     // the peak was reset, so it applies to this worker only
	kills     int64    // OOM kills before this worker
	limits    [2]int64 // memory and processes, as written
	frozen    bool     // cgroup v2 only
}

// oomKills counts the processes of the group that the kernel killed for memory.
func (g *group) oomKills() int64 {
	var buf [512]byte
	n, _ := g.oom.ReadAt(buf[:], 0)
	for line := range strings.Lines(string(buf[:n])) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return number(strings.TrimSpace(v))
		}
	}
	return 0
}

// killed reports whether the kernel killed anything of this worker for memory.
func (g *group) killed() bool { return g != nil && g.oomKills() > g.kills }

// peakBytes returns the peak memory use of the worker, or 0 if unknown.
func (g *group) peakBytes() int64 {
	if g == nil || !g.reset {
		return 0
	}
	var buf [32]byte
	n, _ := g.peak.ReadAt(buf[:], 0)
	return max(0, number(strings.TrimSpace(string(buf[:n]))))
}

// freeze freezes or thaws a group of version 2.
func (g *group) freeze(yes bool) error {
	value := "0"
	if yes {
		value = "1"
	}
	err := writeFile(g.dirs[0], "cgroup.freeze", value)
	g.frozen = yes && err == nil
	return err
}

// pids lists the processes of the group.
func (g *group) pids() []int {
	b, _ := os.ReadFile(filepath.Join(g.dirs[0], "cgroup.procs"))
	var pids []int
	for line := range strings.FieldsSeq(string(b)) {
		pids = append(pids, int(number(line)))
	}
	return pids
}

func (g *group) remove() {
	closeAll(g.join)
	for _, f := range []*os.File{g.peak, g.oom, g.usage, g.weight} {
		if f != nil {
			f.Close()
		}
	}
	for _, d := range g.dirs {
		_ = os.Remove(d)
	}
}
