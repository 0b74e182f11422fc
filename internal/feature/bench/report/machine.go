package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes the machine of a report. Unknown values are zero.
type Machine struct {
	System     string  `json:"system"` // "linux/amd64"
	Kernel     string  `json:"kernel,omitempty"`
	Processor  string  `json:"processor,omitempty"`
	Processors int     `json:"processors"`
	User       string  `json:"user"` // "root" or "ordinary user": their sandboxes are set up differently
	Load       float64 `json:"load"` // average number of running processes in the previous minute
}

// ThisMachine describes the current machine.
func ThisMachine() Machine {
	m := Machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.NumCPU(), User: "ordinary user",
		Kernel: firstWord("/proc/sys/kernel/osrelease"), Processor: processor(),
	}
	if os.Geteuid() == 0 {
		m.User = "root"
	}
	m.Load, _ = strconv.ParseFloat(firstWord("/proc/loadavg"), 64)
	return m
}

func (m Machine) String() string {
	parts := []string{strings.TrimSpace(m.System + " " + m.Kernel), fmt.Sprintf("%d processors", m.Processors)}
	if m.Processor != "" {
		parts[1] += " (" + m.Processor + ")"
	}
	return strings.Join(append(parts, m.User, fmt.Sprintf("load %.2f", m.Load)), ", ")
}

func firstWord(file string) string {
	text, _ := os.ReadFile(file)
	if f := strings.Fields(string(text)); len(f) > 0 {
		return f[0]
	}
	return ""
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
