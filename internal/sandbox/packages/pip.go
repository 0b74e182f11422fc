package packages

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// pip runs the resolver and downloader in a temporary directory.
type pip struct {
	in  *python.Installation
	cfg Config
	dir string
	err error // of write
}

func newPip(in *python.Installation, cfg Config) (*pip, error) {
	dir, err := os.MkdirTemp("", "sandpiper-packages-")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "a temporary directory cannot be created").
			WithHint("set TMPDIR to a writable directory with free space")
	}
	return &pip{in: in, cfg: cfg, dir: dir}, nil
}

func (p *pip) close() { os.RemoveAll(p.dir) }

func (p *pip) path(name string) string { return filepath.Join(p.dir, name) }

// write writes a file of lines and returns its path. run returns its error.
func (p *pip) write(name string, lines []string) string {
	p.err = errors.Join(p.err, os.WriteFile(p.path(name), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return p.path(name)
}

// run runs a pip command in the directory of the lock file, to which the paths in a
// requirements file are relative.
func (p *pip) run(ctx context.Context, args ...string) error {
	if p.err != nil {
		return p.err
	}
	args = append(args, "--only-binary", ":all:", "--progress-bar", "off", "--retries", "2", "--no-color")
	if p.cfg.WheelDir != "" {
		args = append(args, "--no-index", "--find-links", p.cfg.WheelDir)
	}
	var stderr bytes.Buffer
	err := p.in.RunPip(ctx, filepath.Dir(p.cfg.LockFile), args, nil, &stderr)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return explain(stderr.String(), err)
}

var (
	noneFits   = lazyregexp.New(`Could not find a version that satisfies the requirement (.+) \(from versions: (.*)\)`)
	notReached = lazyregexp.New(`after connection broken by '(\w+)`)
	wrongHash  = lazyregexp.New(`(?s)DO NOT MATCH THE HASHES.*?\n\s+(\S+) from `)
	byURL      = lazyregexp.New(`(?m)^ERROR: (\S+ is required by URL or path.*)$`)
	noRegular  = lazyregexp.New(`(\S+) is not a regular file`)
	noBuild    = "packages are not built here"
	anError    = lazyregexp.New(`(?m)^ERROR: (.+)$`)
)

// explain converts pip's error output to a fault.
func explain(stderr string, err error) error {
	stderr = strings.Map(printable, stderr)
	if strings.Contains(stderr, noBuild) {
		return fault.Wrap(fault.Invalid, err, "a package would have to be built, and building runs its code; only wheels are taken").
			WithHint("require a version that has a wheel, or build a wheel on a machine where its code may run and set sandbox.wheels to " +
				"its directory")
	}
	if m := byURL().FindStringSubmatch(stderr); m != nil {
		return fault.Wrap(fault.Invalid, err, "%s; only wheels of an index or of sandbox.wheels are accepted", clip(m[1], 300)).
			WithHint("put its wheel into a directory and set sandbox.wheels to that")
	}
	if m := noRegular().FindStringSubmatch(stderr); m != nil {
		return fault.Wrap(fault.Invalid, err, "%s cannot be read: it is not a regular file", clip(m[1], 300))
	}
	if m := wrongHash().FindStringSubmatch(stderr); m != nil {
		return fault.Wrap(fault.Denied, err, "the wheel of %s is not the one that the lock file names: its hash differs", m[1]).
			WithHint("find out why it changed; `sandpiper packages lock` would accept the new wheel")
	}
	if m := notReached().FindStringSubmatch(stderr); m != nil {
		return fault.Wrap(fault.Unavailable, err, "the package index cannot be reached (%s)", m[1]).
			WithHint("check pip's settings: PIP_INDEX_URL, HTTPS_PROXY, pip.conf")
	}
	if m := noneFits().FindStringSubmatch(stderr); m != nil {
		return fault.Wrap(fault.NotFound, err, "there is no wheel of %s for Python %s on %s", clip(m[1], 200), minor(), platform).
			WithHint("%s", offered(m[2]))
	}
	if m := anError().FindStringSubmatch(stderr); m != nil {
		return fault.Wrap(fault.Invalid, err, "pip: %s", clip(m[1], 400))
	}
	return fault.Wrap(fault.Internal, errors.Join(err, errors.New(clip(stderr, 2000))), "pip failed without a known error message")
}

func offered(versions string) string {
	if versions == "none" {
		return "check the name and that a release has a wheel: only wheels are accepted, because building runs code"
	}
	return "versions that have one: " + clip(versions, 300)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// printable drops control characters, which a terminal would interpret.
func printable(r rune) rune {
	if r != '\n' && (unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ') {
		return -1
	}
	return r
}
