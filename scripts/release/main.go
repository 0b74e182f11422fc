// Command release builds the files of a release of Sandpiper in a directory:
//
//	go run -C scripts/release . -version v1.2.3
//
// It needs Go, git, and Debian's apt for the image. It publishes nothing. The files depend
// only on the commit, the version, SOURCE_DATE_EPOCH (default: the time of the commit) and,
// for the image, the present packages of Debian.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is the input of all files.
type release struct {
	version  string // such as 1.2.3
	root     string // of the repository
	dir      string // of the files
	time     time.Time
	programs map[target]string // paths of the built programs
	extra    string            // directory with completions and manual pages
	notices  string            // path of the licences of the components of the programs
}

// target is a system that programs are built for.
type target struct{ os, arch string }

var (
	linux  = []target{{"linux", "amd64"}, {"linux", "arm64"}}
	others = []target{{"darwin", "arm64"}, {"darwin", "amd64"}, {"windows", "amd64"}}
)

func (t target) String() string { return t.os + "_" + t.arch }

// kinds are the kinds of files, in the order in which they are made.
var kinds = []struct {
	name  string
	write func(context.Context, *release) error
}{
	{"archives", writeArchives},
	{"packages", writePackages},
	{"npm", writeNPM},
	{"wheels", writeWheels},
	{"images", writeImages},
	{"desktop", writeDesktop},
	{"sbom", writeSBOM},
	{"notes", writeNotes},
	{"formula", writeFormula},
}

func run(ctx context.Context, args []string) error {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "version of the release, such as v1.2.3")
	dir := flags.String("dir", "", "directory of the files, which must not exist (default: dist/VERSION)")
	only := flags.String("only", strings.Join(names, ","), "the kinds of files")
	arch := flags.String("arch", "amd64,arm64", "the architectures of Linux")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z]+(\.[0-9a-z]+)*)?$`).MatchString(*version) {
		return fmt.Errorf("-version is %q; it must be like v1.2.3 or v1.2.3-rc.1", *version)
	}
	chosen := strings.Split(*only, ",")
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-only has %q; the kinds are %s", name, strings.Join(names, ", "))
		}
	}
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r := &release{version: strings.TrimPrefix(*version, "v"), root: root, programs: map[target]string{}}
	if r.dir, err = filepath.Abs(cmp.Or(*dir, filepath.Join(root, "dist", *version))); err != nil {
		return err
	}
	if r.time, err = sourceDate(ctx, root); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil { // never mixes the files of two builds
		return err
	}
	build, err := os.MkdirTemp("", "sandpiper-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(build)
	linux = slices.DeleteFunc(linux, func(t target) bool { return !slices.Contains(strings.Split(*arch, ","), t.arch) })
	if err := r.build(ctx, build, slices.Contains(chosen, "desktop")); err != nil {
		return err
	}
	for _, k := range kinds {
		if slices.Contains(chosen, k.name) {
			fmt.Fprintln(os.Stderr, "release:", k.name)
			if err := k.write(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	return writeChecksums(r)
}

// sourceDate returns the time of all files.
func sourceDate(ctx context.Context, root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = output(ctx, root, "git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q; it must be seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// build builds the programs, their completions and their manual pages in directory dir.
func (r *release) build(ctx context.Context, dir string, desktop bool) error {
	if _, err := output(ctx, r.root, "go", "run", "./scripts/trim-python"); err != nil {
		return err
	}
	targets := slices.Clone(linux)
	if desktop {
		targets = append(targets, others...)
	}
	for _, t := range targets {
		fmt.Fprintf(os.Stderr, "release: the program for %s/%s\n", t.os, t.arch)
		r.programs[t] = filepath.Join(dir, t.String(), "sandpiper")
		if t.os == "windows" {
			r.programs[t] += ".exe"
		}
		c := command(ctx, r.root, "go", "build", "-modfile", "dist/trimmed/go.mod", "-trimpath",
			"-ldflags", "-s -w -X main.version=v"+r.version, "-o", r.programs[t], "./cmd/sandpiper")
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
		if _, err := outputOf(c); err != nil {
			return err
		}
	}
	if err := r.writeNotices(ctx, dir); err != nil {
		return err
	}
	r.extra = filepath.Join(dir, "extra")
	c := command(ctx, r.root, "go", "test", "./cmd/sandpiper", "-count", "1", "-run", "^TestReference$", "-reference", r.extra)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10)) // the date of manual pages
	_, err := outputOf(c)
	return err
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	return c
}

// output returns what a command prints, without the last line break.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	return outputOf(command(ctx, dir, name, args...))
}

func outputOf(c *exec.Cmd) (string, error) {
	out, err := c.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w\n%s", c, err, e.Stderr)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
