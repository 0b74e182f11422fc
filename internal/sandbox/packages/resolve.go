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

// Resolve has pip choose a wheel for everything that is wanted and what that
// depends on, from the index that the operator's pip is configured for, and
// writes the lock file. Nothing is installed, and nothing of a package runs.
//
// The fault is NotFound for what has no wheel that fits, and Unavailable if the index
// cannot be asked.
func Resolve(ctx context.Context, cfg Config, in *python.Installation) (*Lock, error) {
	if cfg.IsEmpty() {
		return nil, nothing()
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
	l, err := adopt(data)
	if err != nil {
		return nil, err
	}
	l.Tool.Sandpiper = Origin{Inputs: inputs, Platform: platform, Python: python.Version}
	return l, l.write(cfg.LockFile)
}

func nothing() error {
	return fault.New(fault.Invalid, "no packages are wanted").
		WithHint("list them in sandbox.packages of sandpiper.yaml, or name a file by sandbox.requirements or a directory by sandbox.wheels")
}

// requirements is what pip is asked for besides the requirements file. Of a
// directory of wheels alone everything is wanted.
func (c Config) requirements() ([]string, error) {
	for _, r := range c.Requirements {
		if strings.TrimSpace(r) == "" || strings.HasPrefix(r, "-") || strings.ContainsAny(r, "\n\r") {
			return nil, fault.New(fault.Invalid, "%.60q in sandbox.packages is no requirement; it must be a name with perhaps a version, such as numpy==2.3.*", r)
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

// adopt makes our lock of what pip wrote.
func adopt(data []byte) (*Lock, error) {
	l, err := parse(data)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "what pip wrote cannot be read")
	}
	for i, p := range l.Packages {
		if len(p.Wheels) == 0 {
			return nil, fault.New(fault.Invalid, "%s is named by an address or a path, and only wheels of an index or of sandbox.wheels are taken", p.Name).
				WithHint("put its wheel into a directory and name that by sandbox.wheels")
		}
		for j := range p.Wheels {
			l.Packages[i].Wheels[j].URL = public(p.Wheels[j].URL)
		}
	}
	l.sort()
	if err := l.check(); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "no lock can be made: %v", err)
	}
	return l, nil
}

// public is where a wheel was found, without what may be secret: the lock file
// is shared, and the address is for its reader only.
func public(address string) string {
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
