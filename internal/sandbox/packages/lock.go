package packages

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Lock is a lock file: a pylock.toml (PEP 751) with one wheel per package, and its
// Origin in the tool table.
type Lock struct {
	Version  string    `toml:"lock-version" json:"-"`
	Packages []Package `toml:"packages" json:"packages"` // sorted by name
	Tool     struct {
		Sandpiper Origin `toml:"sandpiper"`
	} `toml:"tool" json:"-"`
}

// Origin records the inputs and the target of a lock file.
type Origin struct {
	Inputs   []string `toml:"inputs"`
	Platform string   `toml:"platform"` // such as linux/amd64
	Python   string   `toml:"python"`   // such as 3.14.6
}

// Package is one resolved package.
type Package struct {
	Name    string  `toml:"name" json:"name"`
	Version string  `toml:"version" json:"version"`
	Wheels  []Wheel `toml:"wheels" json:"wheels"`
}

// Wheel is the file of a package.
type Wheel struct {
	Name   string `toml:"name" json:"name"`
	URL    string `toml:"url" json:"-"`
	Hashes struct {
		SHA256 string `toml:"sha256" json:"sha256"`
	} `toml:"hashes" json:"hashes"`
}

// platform is the platform of native code in wheels.
const platform = runtime.GOOS + "/" + runtime.GOARCH

// text returns the content of the lock file. It is formatted by hand, since no TOML
// encoder writes a package in four lines.
func (l *Lock) text() []byte {
	b := fmt.Appendf(nil, `# Made by "sandpiper packages lock"; run it again instead of editing this file.
lock-version = "1.0"
requires-python = %q
created-by = "sandpiper"
`, ">="+minor())
	for _, p := range l.Packages {
		w := p.Wheels[0]
		b = fmt.Appendf(b, "\n[[packages]]\nname = %q\nversion = %q\n", p.Name, p.Version)
		b = fmt.Appendf(b, "wheels = [{ name = %q, url = %q, hashes = { sha256 = %q } }]\n", w.Name, w.URL, w.Hashes.SHA256)
	}
	o := l.Tool.Sandpiper
	b = fmt.Appendf(b, "\n[tool.sandpiper]\npython = %q\nplatform = %q\ninputs = [\n", o.Python, o.Platform)
	for _, in := range o.Inputs {
		b = fmt.Appendf(b, "    %q,\n", in)
	}
	return append(b, "]\n"...)
}

// minor returns the minor version of Python, to which native wheels are tied.
func minor() string { return python.Version[:strings.LastIndexByte(python.Version, '.')] }

// write writes l to path atomically.
func (l *Lock) write(path string) error {
	if err := durable.ReplaceFile(path, l.text(), 0o644, nil); err != nil {
		return unwritable(path, err)
	}
	return nil
}

func unwritable(path string, err error) error {
	return fault.Wrap(fault.Unavailable, err, "the lock file %s cannot be written", path)
}

// maxLock is the maximum size of a lock file.
const maxLock = 16 << 20

// ReadLock reads and checks the lock file of cfg. It refuses one for another platform.
func ReadLock(cfg Config) (*Lock, error) {
	data, err := readFile(cfg.LockFile)
	if errors.Is(err, fs.ErrNotExist) && cfg.IsEmpty() {
		return nil, noPackages()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "packages are configured, but there is no lock file %s", cfg.LockFile).
			WithHint("run `sandpiper packages lock`, then `sandpiper packages install`")
	}
	if err == nil && len(data) > maxLock {
		err = fmt.Errorf("it has %d bytes", len(data))
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the lock file %s cannot be read", cfg.LockFile)
	}
	l, err := parse(data)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the lock file %s is not valid: %v", cfg.LockFile, err).
			WithHint("run `sandpiper packages lock` to create it again")
	}
	if o := l.Tool.Sandpiper; o.Platform != platform {
		return nil, fault.New(fault.Invalid, "the lock file %s is for %s, and this is %s", cfg.LockFile, o.Platform, platform).
			WithHint("run `sandpiper packages lock` on this machine, in a separate directory")
	}
	return l, nil
}

func parse(data []byte) (*Lock, error) {
	var l Lock
	err := toml.Unmarshal(data, &l)
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := e.Position()
		return nil, fmt.Errorf("line %d: %s", line, strings.TrimPrefix(e.Error(), "toml: "))
	}
	return &l, err
}

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.!+_-]*$`)
	wheelForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl$`)
	hashForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// check fails unless the lock file contains exactly one valid wheel per package.
func (l *Lock) check() error {
	seen := map[string]bool{}
	for _, p := range l.Packages {
		switch {
		case !nameForm.MatchString(p.Name):
			return fmt.Errorf("%.60q is not a package name", p.Name)
		case seen[p.Name]:
			return fmt.Errorf("the package %s is listed twice", p.Name)
		case !versionForm.MatchString(p.Version):
			return fmt.Errorf("%s has the invalid version %.60q", p.Name, p.Version)
		case len(p.Wheels) != 1:
			return fmt.Errorf("%s has %d wheels, want one", p.Name, len(p.Wheels))
		case !wheelForm.MatchString(p.Wheels[0].Name):
			return fmt.Errorf("%.100q is not a wheel name", p.Wheels[0].Name)
		case !hashForm.MatchString(p.Wheels[0].Hashes.SHA256):
			return fmt.Errorf("%s has no SHA-256", p.Wheels[0].Name)
		}
		seen[p.Name] = true
	}
	if l.Version != "1.0" || len(l.Packages) == 0 {
		return fmt.Errorf("lock-version %.10q with %d packages", l.Version, len(l.Packages))
	}
	return nil
}

// StaleReason returns why the lock file does not match cfg, or "" if it does.
func (l *Lock) StaleReason(cfg Config) string {
	inputs, err := cfg.inputs()
	switch {
	case err != nil:
		return fault.Message(err)
	case !slices.Equal(inputs, l.Tool.Sandpiper.Inputs):
		return "the requirements have changed since " + filepath.Base(cfg.LockFile) + " was created"
	}
	return ""
}

// format is part of every key: increase it when the build of layers changes.
const format = 1

// key returns a hash of the content of the layer.
func (l *Lock) key() string {
	hashes := make([]string, len(l.Packages))
	for i, p := range l.Packages {
		hashes[i] = p.Wheels[0].Hashes.SHA256
	}
	slices.Sort(hashes)
	sum := sha256.Sum256(fmt.Appendln(nil, format, hashes))
	return hex.EncodeToString(sum[:8])
}

// sort sorts the packages by name.
func (l *Lock) sort() {
	slices.SortFunc(l.Packages, func(a, b Package) int { return cmp.Compare(a.Name, b.Name) })
}
