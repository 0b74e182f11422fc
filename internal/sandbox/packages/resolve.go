package packages

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// Resolve resolves the requirements and their dependencies to wheels with pip, from
// the index that pip is configured for, and writes the lock file. It installs nothing
// and runs no code of a package.
//
// The fault is NotFound for a requirement without a compatible wheel, and Unavailable
// if the index cannot be reached.
func Resolve(ctx context.Context, cfg Config, in *python.Installation) (*Lock, error) {
	if cfg.IsEmpty() {
		return nil, noPackages()
	}
	inputs, err := cfg.inputs()
	if err != nil {
		return nil, err
	}
	wanted, err := cfg.requirements()
	if err != nil {
		return nil, err
	}
	p, err := newPip(in, cfg)
	if err != nil {
		return nil, err
	}
	defer p.close()
	args := []string{"lock", "-r", p.write("requirements.txt", wanted), "-o", p.path("pylock.toml")}
	if cfg.RequirementsFile != "" {
		args = append(args, "-r", cfg.RequirementsFile)
	}
	if err := p.run(ctx, args...); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(p.path("pylock.toml"))
	if err != nil {
		return nil, err
	}
	l, err := parsePipLock(data)
	if err != nil {
		return nil, err
	}
	l.Tool.Sandpiper = Origin{Inputs: inputs, Platform: platform, Python: python.Version}
	return l, l.write(cfg.LockFile)
}

func noPackages() error {
	return fault.New(fault.Invalid, "no packages are configured").
		WithHint("run `sandpiper packages add NAME`, or set sandbox.requirements to a file or sandbox.wheels to a directory")
}

// requirements returns the requirements for pip besides the requirements file. If only
// a directory of wheels is configured, these are all its wheels.
func (c Config) requirements() ([]string, error) {
	for _, r := range c.Requirements {
		if strings.TrimSpace(r) == "" || strings.HasPrefix(r, "-") || strings.ContainsAny(r, "\n\r") {
			return nil, fault.New(fault.Invalid, "%.60q in sandbox.packages is not a requirement; it must be a name with an optional "+
				"version, such as numpy==2.3.*", r)
		}
	}
	if c.WheelDir == "" || len(c.Requirements) > 0 || c.RequirementsFile != "" {
		return c.Requirements, nil
	}
	files, err := wheelsIn(c.WheelDir)
	var names []string
	for _, f := range files {
		name, _, _ := strings.Cut(f, "-")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// parsePipLock converts the lock file that pip wrote.
func parsePipLock(data []byte) (*Lock, error) {
	l, err := parse(data)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the lock file that pip wrote cannot be read")
	}
	for i, p := range l.Packages {
		if len(p.Wheels) == 0 {
			return nil, fault.New(fault.Invalid, "%s is required by URL or path; only wheels of an index or of sandbox.wheels are accepted",
				p.Name).
				WithHint("put its wheel into a directory and set sandbox.wheels to that")
		}
		for j := range p.Wheels {
			l.Packages[i].Wheels[j].URL = publicURL(p.Wheels[j].URL)
		}
	}
	l.sort()
	if err := l.check(); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the lock file cannot be created: %v", err)
	}
	return l, nil
}

// publicURL returns the URL of a wheel without credentials, query and local
// directories: the lock file is shared. The URL is informative only.
func publicURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if u.Scheme == "file" {
		return "file:" + filepath.Base(u.Path)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
