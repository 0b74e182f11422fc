package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// scheduleLoop adds the runs of schedules to the background executions when they are due. All state
// is in the tenants' databases; configured only saves opening them for nothing.
type scheduleLoop struct {
	*Schedules
	last time.Time // of the last pass

	configured map[tenant.ID]time.Time // when the schedules of the configuration are looked at next
	from       *config.Config          // that configured is of
}

// retrySchedules is the time until the schedules of a tenant are looked at again after an error, and
// lookAgain the longest time between two looks: the clock may have been changed.
const (
	retrySchedules = 500 * time.Millisecond
	lookAgain      = time.Minute
)

// pass adds the runs that are due.
func (s *scheduleLoop) pass(ctx context.Context) {
	now := time.Now()
	_ = clock.PutBack() // remembers a step
	if by := clock.Jump(s.last, now); by > 0 && !s.last.IsZero() {
		s.core.Log.Warn("the clock was put back; schedules with intervals and sleep_for continue after the time that has elapsed", "by",
			by.Round(time.Second).String())
	}
	s.last = now
	now = now.Round(0) // without the monotonic clock, which stops while the machine is suspended
	c := s.core.Config()
	if s.from != c {
		s.reload(ctx, c, now)
	}
	ids, err := s.core.Homes.Marks(name).Due(now)
	if err != nil {
		s.core.Log.Error("list tenants with schedules", "error", err)
	}
	scheduled := len(ids)
	for id, at := range s.configured {
		if (!at.After(now) || at.Sub(now) > 2*lookAgain) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for i, id := range ids {
		if ctx.Err() != nil {
			return
		}
		next := s.handle(ctx, id, now, configured(c, id, s.core.Tenant), i < scheduled)
		if _, ok := s.configured[id]; ok {
			s.configured[id] = next
		}
	}
}

// reload adopts the schedules of another configuration, and logs what is wrong with them.
func (s *scheduleLoop) reload(ctx context.Context, c *config.Config, now time.Time) {
	s.from, s.configured = c, map[tenant.ID]time.Time{}
	for _, one := range config.Of[Settings](c).Schedules {
		s.configured[s.tenantOf(one)] = now
		if err := s.check(ctx, one); err != nil {
			s.core.Log.Error(fault.Message(err), "hint", fault.Hint(err))
		}
	}
}

// handle handles the due times of a tenant, and returns when to do so again. If its own schedules were
// marked as due and are not, as after an import, it corrects the mark.
func (s *scheduleLoop) handle(ctx context.Context, id tenant.ID, now time.Time, specs []Spec, scheduled bool) (next time.Time) {
	next = now.Add(lookAgain)
	h, err := s.core.Homes.Acquire(ctx, id)
	if err != nil {
		s.core.Log.Warn("open a tenant with schedules", "tenant", id.String(), "error", err)
		if err := s.core.Homes.Marks(name).Postpone(id, next); err != nil {
			s.core.Log.Error("postpone schedules", "tenant", id.String(), "error", err)
		}
		return next
	}
	defer func() {
		if err := h.Release(context.WithoutCancel(ctx)); err != nil {
			s.core.Log.Error("release a home", "tenant", id.String(), "error", err)
		}
	}()
	p, err := Open(h).HandleDue(ctx, now, specs, s.request, func(one Spec, err error) {
		s.core.Log.Error("a schedule was not run", "tenant", id.String(), "schedule", one.Name, "error", err)
	})
	if err != nil {
		s.core.Log.Error("handle the schedules of a tenant", "tenant", id.String(), "error", err)
		return now.Add(retrySchedules)
	}
	if len(p.Started) == 0 && scheduled {
		if err := Open(h).Touch(ctx, now, specs); err != nil {
			s.core.Log.Error("store when schedules are due", "tenant", id.String(), "error", err)
		}
	}
	if !p.Next.IsZero() && p.Next.Before(next) {
		next = p.Next
	}
	return next
}

// Schedules are the schedules of the configuration, and those of agents.
type Schedules struct{ core daemon.Core }

// errors returns the errors of the configured schedules whose tenant, skill or workflow does not
// exist. It creates no tenant.
func (s *Schedules) errors(ctx context.Context) (all []error) {
	for _, one := range config.Of[Settings](s.core.Config()).Schedules {
		if err := s.find(ctx, one); err != nil {
			all = append(all, err)
		}
	}
	return all
}

// find is check without creating the tenant.
func (s *Schedules) find(ctx context.Context, one Entry) error {
	id := s.tenantOf(one)
	if err := s.core.Known(id); err != nil {
		return scheduleError(one, err)
	}
	has, err := s.core.Homes.Exists(id)
	if err == nil && !has {
		err = fault.New(fault.NotFound, "tenant %q has no skills and workflows yet", id)
	}
	if err != nil {
		return scheduleError(one, err)
	}
	return s.checkIn(ctx, one, func(ctx context.Context) (*home.Home, error) { return s.core.Homes.AcquireSuspended(ctx, id) })
}

// tenantOf returns the tenant for which a configured schedule runs.
func (s *Schedules) tenantOf(one Entry) tenant.ID {
	if one.Tenant.IsZero() {
		return s.core.Tenant
	}
	return one.Tenant
}

// check reports that a configured schedule names a skill or workflow that does not exist.
func (s *Schedules) check(ctx context.Context, one Entry) error {
	return s.checkIn(ctx, one, func(ctx context.Context) (*home.Home, error) { return s.core.Homes.Acquire(ctx, s.tenantOf(one)) })
}

// checkIn is check in the home that acquire opens.
func (s *Schedules) checkIn(ctx context.Context, one Entry, acquire func(context.Context) (*home.Home, error)) error {
	h, err := acquire(ctx)
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s: schedules: %s", one.At, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }()
	if err := s.checkTarget(ctx, h, one.Spec()); err != nil {
		return scheduleError(one, err)
	}
	return nil
}

// scheduleError adds the place, the name and the target of a schedule to an error.
func scheduleError(s Entry, err error) error {
	return fault.Wrap(fault.KindOf(err), err, "%s: schedules: schedule %q runs %s: %s", s.At, s.Name, s.Spec().Target(),
		fault.Message(err)).WithHint("%s", fault.Hint(err))
}

// checkTarget reports that what a schedule runs does not exist, or does not take its inputs.
func (s *Schedules) checkTarget(ctx context.Context, h *home.Home, spec Spec) error {
	kind, name := spec.program()
	return s.core.Programs(kind).Check(ctx, h, name, spec.Inputs)
}

// checkAll reports the first configured schedule that cannot run.
func (s *Schedules) checkAll(ctx context.Context, c *config.Config) error {
	for _, one := range config.Of[Settings](c).Schedules {
		if err := s.check(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// List returns the schedules of a tenant.
func (s *Schedules) List(ctx context.Context, h *home.Home) ([]Schedule, error) {
	return Open(h).List(ctx, time.Now(), s.configuredOf(h))
}

// Pause pauses or resumes a schedule of a tenant.
func (s *Schedules) Pause(ctx context.Context, h *home.Home, name string, paused bool) error {
	return Open(h).SetPaused(ctx, time.Now(), s.configuredOf(h), name, paused)
}

// Delete deletes a schedule that an agent has created.
func (s *Schedules) Delete(ctx context.Context, h *home.Home, name string) error {
	return Open(h).Delete(ctx, time.Now(), s.configuredOf(h), name)
}

// Run lets some daemon run a schedule now, and returns the id of the execution.
func (s *Schedules) Run(ctx context.Context, h *home.Home, name string) (string, error) {
	return Open(h).RunNow(ctx, time.Now(), s.configuredOf(h), name, s.request)
}

func (s *Schedules) configuredOf(h *home.Home) []Spec {
	return configured(s.core.Config(), h.ID(), s.core.Tenant)
}

// Create stores a schedule of an agent, if the policy allows it or the person approves it. c has
// the arguments that the person is shown.
func (s *Schedules) Create(ctx context.Context, h *home.Home, spec Spec, c tool.Call) (Schedule, error) {
	if _, err := spec.Check(); err != nil {
		return Schedule{}, err
	}
	if err := s.checkTarget(ctx, h, spec); err != nil {
		return Schedule{}, err
	}
	if err := s.core.Permit(ctx, h, c); err != nil {
		return Schedule{}, err
	}
	return Open(h).Create(ctx, time.Now(), s.configuredOf(h), spec)
}

// request returns the stored request of the execution that runs a schedule.
func (s *Schedules) request(one Spec) ([]byte, error) {
	kind, name := one.program()
	text, err := s.core.Programs(kind).Stored(name, one.Inputs, "schedule "+one.Name)
	if err != nil {
		return nil, fault.Wrap(fault.KindOf(err), err, "schedule %q: %s", one.Name, fault.Message(err))
	}
	return text, nil
}
