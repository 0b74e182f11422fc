package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// schedules adds the runs of schedules to the background executions when they are due. All state
// is in the tenants' databases; configured only saves opening them for nothing.
type schedules struct {
	d    *Daemon
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
func (s *schedules) pass(ctx context.Context) {
	now := time.Now()
	_ = clock.PutBack() // remembers a step
	if by := clock.Jump(s.last, now); by > 0 && !s.last.IsZero() {
		s.d.log.Warn("the clock was put back; schedules with intervals and sleep_for continue after the time that has elapsed", "by", by.Round(time.Second).String())
	}
	s.last = now
	now = now.Round(0) // without the monotonic clock, which stops while the machine is suspended
	c := s.d.now()
	if s.from != c {
		s.reload(ctx, c, now)
	}
	ids, err := s.d.Tenants.Scheduled(now)
	if err != nil {
		s.d.log.Error("list tenants with schedules", "error", err)
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
		next := s.handle(ctx, id, now, c.SchedulesOf(id, s.d.cfg.Tenant), i < scheduled)
		if _, ok := s.configured[id]; ok {
			s.configured[id] = next
		}
	}
}

// reload adopts the schedules of another configuration, and logs what is wrong with them.
func (s *schedules) reload(ctx context.Context, c *config.Config, now time.Time) {
	s.from, s.configured = c, map[tenant.ID]time.Time{}
	for _, one := range c.Schedules {
		s.configured[s.d.scheduleTenant(one)] = now
		if err := s.d.checkSchedule(ctx, one); err != nil {
			s.d.log.Error(fault.Message(err), "hint", fault.Hint(err))
		}
	}
}

// handle handles the due times of a tenant, and returns when to do so again. If its own schedules were
// marked as due and are not, as after an import, it corrects the mark.
func (s *schedules) handle(ctx context.Context, id tenant.ID, now time.Time, configured []schedule.Spec, scheduled bool) (next time.Time) {
	next = now.Add(lookAgain)
	h, err := s.d.Tenants.Acquire(ctx, id)
	if err != nil {
		s.d.log.Warn("open a tenant with schedules", "tenant", id.String(), "error", err)
		if err := s.d.Tenants.PostponeScheduled(id, next); err != nil {
			s.d.log.Error("postpone schedules", "tenant", id.String(), "error", err)
		}
		return next
	}
	defer func() {
		if err := h.Release(context.WithoutCancel(ctx)); err != nil {
			s.d.log.Error("release a home", "tenant", id.String(), "error", err)
		}
	}()
	p, err := h.Schedules.HandleDue(ctx, now, configured, background.Scheduled, func(one schedule.Spec, err error) {
		s.d.log.Error("a schedule was not run", "tenant", id.String(), "schedule", one.Name, "error", err)
	})
	if err != nil {
		s.d.log.Error("handle the schedules of a tenant", "tenant", id.String(), "error", err)
		return now.Add(retrySchedules)
	}
	if len(p.Started) == 0 && scheduled {
		if err := h.Schedules.Touch(ctx, now, configured); err != nil {
			s.d.log.Error("store when schedules are due", "tenant", id.String(), "error", err)
		}
	}
	if !p.Next.IsZero() && p.Next.Before(next) {
		next = p.Next
	}
	return next
}

// ScheduleErrors returns the errors of the configured schedules whose tenant, skill or workflow does not
// exist. It creates no tenant.
func (d *Daemon) ScheduleErrors(ctx context.Context) (all []error) {
	for _, s := range d.now().Schedules {
		if err := d.findSchedule(ctx, s); err != nil {
			all = append(all, err)
		}
	}
	return all
}

// findSchedule is checkSchedule without creating the tenant.
func (d *Daemon) findSchedule(ctx context.Context, s config.Schedule) error {
	id := d.scheduleTenant(s)
	if err := d.CheckTenant(id); err != nil {
		return scheduleError(s, err)
	}
	has, err := d.Tenants.Exists(id)
	if err == nil && !has {
		err = fault.New(fault.NotFound, "tenant %q has no skills and workflows yet", id)
	}
	if err != nil {
		return scheduleError(s, err)
	}
	return d.checkScheduleOf(ctx, s, func(ctx context.Context) (*home.Home, error) { return d.Tenants.AcquireSuspended(ctx, id) })
}

// scheduleTenant returns the tenant for which a configured schedule runs.
func (d *Daemon) scheduleTenant(s config.Schedule) tenant.ID {
	if s.Tenant.IsZero() {
		return d.cfg.Tenant
	}
	return s.Tenant
}

// checkSchedule reports that a configured schedule names a skill or workflow that does not exist.
func (d *Daemon) checkSchedule(ctx context.Context, s config.Schedule) error {
	return d.checkScheduleOf(ctx, s, func(ctx context.Context) (*home.Home, error) { return d.Tenants.Acquire(ctx, d.scheduleTenant(s)) })
}

// checkScheduleOf is checkSchedule for the tenant that acquire opens.
func (d *Daemon) checkScheduleOf(ctx context.Context, s config.Schedule, acquire func(context.Context) (*home.Home, error)) error {
	h, err := acquire(ctx)
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s: schedules: %s", s.At, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }()
	if err := d.checkTarget(ctx, h, s.Spec); err != nil {
		return scheduleError(s, err)
	}
	return nil
}

// scheduleError adds the place, the name and the target of a schedule to an error.
func scheduleError(s config.Schedule, err error) error {
	return fault.Wrap(fault.KindOf(err), err, "%s: schedules: schedule %q runs %s: %s", s.At, s.Name, s.Target(), fault.Message(err)).WithHint("%s", fault.Hint(err))
}

// checkTarget reports that what a schedule runs does not exist, or does not take its inputs.
func (d *Daemon) checkTarget(ctx context.Context, h *home.Home, s schedule.Spec) error {
	if s.Workflow != "" {
		return d.Flows.CheckInputs(ctx, h, s.Workflow, s.Inputs)
	}
	_, err := h.Skills.Find(ctx, s.Skill, 0)
	return err
}

// checkSchedules reports the first configured schedule that cannot run.
func (d *Daemon) checkSchedules(ctx context.Context, c *config.Config) error {
	for _, s := range c.Schedules {
		if err := d.checkSchedule(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// ListSchedules returns the schedules of a tenant.
func (d *Daemon) ListSchedules(ctx context.Context, h *home.Home) ([]schedule.Schedule, error) {
	return h.Schedules.List(ctx, time.Now(), d.configuredSchedules(h))
}

// PauseSchedule pauses or resumes a schedule of a tenant.
func (d *Daemon) PauseSchedule(ctx context.Context, h *home.Home, name string, paused bool) error {
	return h.Schedules.SetPaused(ctx, time.Now(), d.configuredSchedules(h), name, paused)
}

// DeleteSchedule deletes a schedule that an agent has created.
func (d *Daemon) DeleteSchedule(ctx context.Context, h *home.Home, name string) error {
	return h.Schedules.Delete(ctx, time.Now(), d.configuredSchedules(h), name)
}

// RunSchedule lets some daemon run a schedule now, and returns the id of the execution.
func (d *Daemon) RunSchedule(ctx context.Context, h *home.Home, name string) (string, error) {
	return h.Schedules.RunNow(ctx, time.Now(), d.configuredSchedules(h), name, background.Scheduled)
}

func (d *Daemon) configuredSchedules(h *home.Home) []schedule.Spec {
	return d.now().SchedulesOf(h.ID(), d.cfg.Tenant)
}

// CreateSchedule stores a schedule of an agent, if the policy allows it or the person approves it. c has
// the arguments that the person is shown.
func (d *Daemon) CreateSchedule(ctx context.Context, h *home.Home, spec schedule.Spec, c tool.Call) (schedule.Schedule, error) {
	if _, err := spec.Check(); err != nil {
		return schedule.Schedule{}, err
	}
	if err := d.checkTarget(ctx, h, spec); err != nil {
		return schedule.Schedule{}, err
	}
	if err := d.calls.Permit(ctx, h, c); err != nil {
		return schedule.Schedule{}, err
	}
	return h.Schedules.Create(ctx, time.Now(), d.configuredSchedules(h), spec)
}
