package microvm

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const name = "microvm"

// kind is the strongest one: a second kernel, and the boundary of the processor.
var kind = policy.Sandbox{Name: name, Strength: 3}

// Settings are the keys of the feature.
type Settings struct {
	Kernel string `key:"sandbox.microvm.kernel,restart" form:"path"`    // Config.Kernel
	Accel  string `key:"sandbox.microvm.accel,restart" allow:"kvm tcg"` // Config.Accel
}

// Feature returns the feature: the backend microvm and its keys.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name: name,
			Config: config.Section{
				Settings: func() any { return new(Settings) },
				Sandbox: config.Sandbox{
					Sandbox: kind,
					About:   "runs each in a virtual machine",
					Former:  "microsandbox",
					Weak:    func(c *config.Config) bool { return config.Of[Settings](c).Accel == TCG },
				},
			},
			Backend: daemon.Backend{Check: check, Start: open},
		},
		Docs: "microvm.md",
	}
}

// Loaded warns of an emulated processor, which does not isolate, and rejects it where a rule of the policy requires
// another sandbox, for which a virtual machine would suffice.
func (s *Settings) Loaded(c *config.Config) error {
	used := c.SandboxesInUse()
	if s.Accel != TCG || used[kind] == "" {
		return nil
	}
	c.Warn("sandbox.microvm.accel is tcg: QEMU emulates the processor of sandboxes, WHICH IS NOT AN ISOLATION BOUNDARY; use it for " +
		"tests only")
	for _, r := range config.RequiredSandboxes(c) {
		if r.Sandbox != kind && kind.Satisfies(r.Sandbox) {
			return fault.New(fault.Invalid, "%s of the policy requires the sandbox %s, for which microvm (%s) would suffice, but "+
				"sandbox.microvm.accel is tcg, which is not an isolation boundary", r.Rule, r.Sandbox, used[kind]).
				WithHint("remove sandbox.microvm.accel, so that virtual machines use KVM")
		}
	}
	return nil
}

func configure(c *config.Config, common sandbox.Config) Config {
	s := config.Of[Settings](c)
	return Config{Config: common, Kernel: s.Kernel, Accel: s.Accel, MaxMemory: int64(c.Limits.MaxMemoryMB) << 20}
}

func check(_ context.Context, c *config.Config, common sandbox.Config) error {
	return orProcess(Check(configure(c, common)), c.FormerSetting)
}

func open(ctx context.Context, c *config.Config, common sandbox.Config) (sandbox.Backend, error) {
	b, err := New(ctx, configure(c, common))
	return b, orProcess(sandbox.NotNow(err), c.FormerSetting)
}

// orProcess adds to the error of virtual machines that cannot start how a former system's file selects the usual
// sandbox, if such a file selects them.
func orProcess(err error, selected string) error {
	if err == nil || selected == "" {
		return err
	}
	hint := selected + " selects virtual machines; `sandbox_type: process` there runs code in Sandpiper's own sandbox"
	if more := fault.Hint(err); more != "" {
		hint += "; or, for virtual machines: " + more
	}
	return fault.Wrap(fault.KindOf(err), err, "%s", fault.Message(err)).WithHint("%s", hint)
}
