package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// DefaultLimits returns the limits of a backend that is configured with none.
func DefaultLimits() Limits {
	return Limits{
		MemoryBytes: 500 << 20,
		Processes:   128,
		OpenFiles:   256,
		FileBytes:   1 << 30,
		CPU:         600 * time.Second,
		ResultBytes: 64 << 20,
	}
}

// WithDefaults returns l with its zero fields set from d.
func (l Limits) WithDefaults(d Limits) Limits {
	for _, f := range []struct{ field, value *int64 }{
		{&l.MemoryBytes, &d.MemoryBytes}, {&l.FileBytes, &d.FileBytes}, {&l.ResultBytes, &d.ResultBytes}, {&l.WorkspaceDisk,
			&d.WorkspaceDisk},
		{&l.WorkspaceFiles, &d.WorkspaceFiles},
	} {
		if *f.field == 0 {
			*f.field = *f.value
		}
	}
	if l.Processes == 0 {
		l.Processes = d.Processes
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = d.OpenFiles
	}
	if l.CPU == 0 {
		l.CPU = d.CPU
	}
	return l
}

// Check returns an error if s has no owner or no workspace, names a directory that is not
// directly below a root, or is for another backend than the one with that name, which has one package layer.
func (s Spec) Check(backend string) error {
	switch {
	case s.Owner == "":
		return errors.New("sandbox: the spec has no owner")
	case s.Backend != "" && s.Backend != backend:
		return fmt.Errorf("sandbox: this backend is not %q", s.Backend)
	case s.PackageLayer != "":
		return fmt.Errorf("sandbox: this backend has no package layer %q", s.PackageLayer)
	}
	workspace := false
	for _, m := range s.Mounts {
		workspace = workspace || m.Target == "/workspace"
		if m.Name == "" || m.Name == "." || m.Name == ".." || strings.Contains(m.Name, "/") {
			// "." would be the root, with the directories of all tenants
			return fmt.Errorf("sandbox: %q is not a single name below a root", m.Name)
		}
	}
	if !workspace {
		return errors.New("sandbox: the spec has no mount at /workspace")
	}
	return nil
}

// Over returns o as ended by a limit.
func (o Outcome) Over(limit, message string) Outcome {
	o.Status, o.Limit, o.ErrorType, o.Error, o.Result, o.Traceback = OverLimit, limit, limit, message, nil, ""
	return o
}
