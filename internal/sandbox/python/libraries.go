//go:build linux && (amd64 || arm64)

package python

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// SystemLibraries returns the glibc files of the host that Python needs. It maps the
// path on the host, without symbolic links, to the path in a sandbox's root. The
// fault is Unavailable if the host has no glibc or one that is too old.
func (i *Installation) SystemLibraries() (map[string]string, error) {
	return systemLibraries("/", i.dir)
}

// libraryDirs are the default search paths of the dynamic linkers of Linux
// distributions. A library mounted at the path where it was found is found again.
var libraryDirs = map[string][]string{
	"amd64": {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
	"arm64": {"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
}[runtime.GOARCH]

// host finds libraries in a root file system.
type host struct {
	root  string
	found map[string]string    // real path -> path in the sandbox
	byLib map[string]*elf.File // by soname
	err   error                // of a file that could not be read, so that a library may have been missed
}

func systemLibraries(root, install string) (map[string]string, error) {
	program, err := elf.Open(filepath.Join(install, executable))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the installed Python cannot be read")
	}
	defer program.Close()
	h := host{root: root, found: map[string]string{}, byLib: map[string]*elf.File{}}
	defer h.close()
	loader, err := interpreter(program)
	if err != nil {
		return nil, err
	}
	if !h.add(loader, program) {
		return nil, h.without(loader)
	}
	if err := h.closure(program, path.Base(loader)); err != nil {
		return nil, err
	}
	if err := h.checkVersions(program); err != nil {
		return nil, err
	}
	return h.found, h.optional(program)
}

// interpreter returns the path of the dynamic linker of program.
func interpreter(program *elf.File) (string, error) {
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			return string(b[:max(len(b)-1, 0)]), err // without its NUL
		}
	}
	return "", fault.New(fault.Internal, "the installed Python has no dynamic linker entry (PT_INTERP)")
}

// closure adds the libraries that program needs, including indirect ones.
func (h *host) closure(program *elf.File, loader string) error {
	queue, err := program.ImportedLibraries()
	for len(queue) > 0 && err == nil {
		name := queue[0]
		queue = queue[1:]
		if name == loader || h.byLib[name] != nil {
			continue
		}
		if !h.find(name, program) {
			return h.without(name)
		}
		var more []string
		more, err = h.byLib[name].ImportedLibraries()
		queue = append(queue, more...)
	}
	return err
}

// optional adds libraries that glibc loads at run time, if they exist: libgcc_s to
// unwind a thread that ends, and before 2.34 libnss_files for module pwd.
func (h *host) optional(program *elf.File) error {
	h.find("libgcc_s.so.1", program)
	versions, err := definedBy(h.byLib["libc.so.6"])
	if !slices.Contains(versions, "GLIBC_2.34") {
		h.find("libnss_files.so.2", program)
	}
	return errors.Join(err, h.err)
}

func (h *host) find(name string, program *elf.File) bool {
	return slices.ContainsFunc(libraryDirs, func(dir string) bool { return h.add(path.Join(dir, name), program) })
}

// add adds the library at a path if it exists and is for program's processor.
func (h *host) add(name string, program *elf.File) bool {
	real, err := filepath.EvalSymlinks(filepath.Join(h.root, name))
	var lib *elf.File
	if err == nil {
		lib, err = elf.Open(real)
	}
	if err != nil {
		if fault.Inconclusive(err) {
			h.err = fault.Wrap(fault.Unavailable, err, "a library of this host cannot be read").WithHint("check the disk of %s", name)
		}
		return false
	}
	if lib.Machine != program.Machine || lib.Class != program.Class {
		lib.Close()
		return false
	}
	h.found[real], h.byLib[path.Base(name)] = name, lib
	return true
}

// checkVersions fails unless the libraries define the symbol versions that program needs.
func (h *host) checkVersions(program *elf.File) error {
	needs, err := program.DynamicVersionNeeds()
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the installed Python cannot be read")
	}
	for _, need := range needs {
		have, err := definedBy(h.byLib[need.Name])
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the library %s of this host cannot be read", need.Name)
		}
		for _, v := range need.Needs {
			if !slices.Contains(have, v.Dep) {
				return fault.New(fault.Unavailable, "this host's %s is too old for Python %s, which needs its version %s", need.Name,
					Version, v.Dep).
					WithHint("use a newer release of the Linux distribution")
			}
		}
	}
	return nil
}

// definedBy returns the symbol versions that a library defines, or nil if lib is nil.
func definedBy(lib *elf.File) (names []string, err error) {
	if lib == nil {
		return nil, nil
	}
	versions, err := lib.DynamicVersions()
	if !fault.Inconclusive(err) {
		err = nil // it defines none
	}
	for _, v := range versions {
		names = append(names, v.Name)
	}
	return names, err
}

func (h *host) close() {
	for _, lib := range h.byLib {
		lib.Close()
	}
}

// without returns the error of a library that was not found.
func (h *host) without(missing string) error {
	if h.err != nil {
		return h.err
	}
	return fault.Wrap(fault.Unavailable, fmt.Errorf("%s: %w", missing, os.ErrNotExist),
		"this host has no glibc for %s (%s is missing), and Python %s needs it", runtime.GOARCH, path.Base(missing), Version).
		WithHint("use a distribution with glibc, such as Debian, Ubuntu, Fedora or Arch; distributions with musl, such as Alpine, are " +
			"not supported")
}
