package packages

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// pip is the resolver and downloader, with a directory of its own to work in.
type pip struct {
	in  *python.Installation
	cfg Config
	dir string
	err error // of write
}

func newPip(in *python.Installation, cfg Config) (*pip, error) {
	dir, err := os.MkdirTemp("", "sandpiper-packages-")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "there is no place for temporary files").WithHint("set TMPDIR to a directory of yours with room")
	}
	return &pip{in: in, cfg: cfg, dir: dir}, nil
}

func (p *pip) close() { os.RemoveAll(p.dir) }

func (p *pip) path(name string) string { return filepath.Join(p.dir, name) }

// write makes a file of lines and returns its path; run tells if that failed.
func (p *pip) write(name string, lines []string) string {
	p.err = errors.Join(p.err, os.WriteFile(p.path(name), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return p.path(name)
}

// run runs a command of pip. Paths in a requirements file are relative to where
// the operator wrote it.
func (p *pip) run(ctx context.Context, args ...string) error {
	if p.err != nil {
		return p.err
	}
	args = append(args, "--only-binary", ":all:", "--progress-bar", "off", "--retries", "2", "--no-color")
	if p.cfg.WheelDir != "" {
		args = append(args, "--no-index", "--find-links", p.cfg.WheelDir)
	}
	var complaint bytes.Buffer
	err := p.in.RunPip(ctx, filepath.Dir(p.cfg.LockFile), args, nil, &complaint)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return explain(complaint.String(), err)
}

var (
	noneFits   = regexp.MustCompile(`Could not find a version that satisfies the requirement (.+) \(from versions: (.*)\)`)
	notReached = regexp.MustCompile(`after connection broken by '(\w+)`)
	wrongHash  = regexp.MustCompile(`(?s)DO NOT MATCH THE HASHES.*?\n\s+(\S+) from `)
	noBuild    = "packages are not built here"
	anError    = regexp.MustCompile(`(?m)^ERROR: (.+)$`)
)

// explain says what a complaint of pip's means for the operator.
func explain(complaint string, err error) error {
	complaint = strings.Map(plain, complaint)
	if strings.Contains(complaint, noBuild) {
		return fault.Wrap(fault.Invalid, err, "a package would have to be built, and building runs its code; only wheels are taken").
			WithHint("name a version that has a wheel, or build one where you trust it and name its directory by sandbox.wheels")
	}
	if m := wrongHash.FindStringSubmatch(complaint); m != nil {
		return fault.Wrap(fault.Denied, err, "the wheel of %s is not the one that the lock file names: its hash differs", m[1]).
			WithHint("find out why it changed; `sandpiper packages lock` would trust the new one")
	}
	if m := notReached.FindStringSubmatch(complaint); m != nil {
		return fault.Wrap(fault.Unavailable, err, "the package index cannot be reached (%s)", m[1]).
			WithHint("pip's own settings say which it is: PIP_INDEX_URL, HTTPS_PROXY, pip.conf")
	}
	if m := noneFits.FindStringSubmatch(complaint); m != nil {
		return fault.Wrap(fault.NotFound, err, "there is no wheel of %s for Python %s on %s", clip(m[1], 200), minor(), platform).
			WithHint("%s", offered(m[2]))
	}
	if m := anError.FindStringSubmatch(complaint); m != nil {
		return fault.Wrap(fault.Invalid, err, "pip: %s", clip(m[1], 400))
	}
	return fault.Wrap(fault.Internal, errors.Join(err, errors.New(clip(complaint, 2000))), "pip failed without saying why")
}

func offered(versions string) string {
	if versions == "none" {
		return "only wheels are taken, since building runs code: is the name right, and does a release of it have one?"
	}
	return "versions that have one: " + clip(versions, 300)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// plain drops what would steer a terminal.
func plain(r rune) rune {
	if r != '\n' && (unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ') {
		return -1
	}
	return r
}
