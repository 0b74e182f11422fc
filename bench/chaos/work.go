package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// dispatch starts code in the background, unless it has been started.
func dispatch(ctx context.Context, r *round, c *rig.Client, code string) error {
	if err := find(ctx, r, c); err != nil || r.id != "" {
		return err
	}
	r.started = true
	out, err := call(ctx, c, "dispatch_background_task", r.program(code))
	if err == nil && out.ID == "" {
		err = problemf("failed", "dispatch_background_task returned %s", out.raw)
	}
	r.id, r.background = out.ID, true
	return err
}

func driveBackground(ctx context.Context, r *round, d *rig.Daemon) error {
	if err := dispatch(ctx, r, d.Client, writeCode); err != nil {
		return err
	}
	return wait(ctx, r, d.Client)
}

// driveAnswer answers the questions and approvals of an execution in the background, half of them only after it has
// given up its process.
func driveAnswer(ctx context.Context, r *round, d *rig.Daemon) error {
	r.away = 4 * time.Second
	if err := dispatch(ctx, r, d.Client, questionCode); err != nil {
		return err
	}
	return wait(ctx, r, d.Client)
}

// driveWait sends a signal for each write, and the last one. A signal that was sent and not
// acknowledged is not sent again, and may be lost.
func driveWait(ctx context.Context, r *round, d *rig.Daemon) error {
	if err := dispatch(ctx, r, d.Client, waitCode); err != nil {
		return err
	}
	for _, id := range append(r.ids, "end") {
		if r.answered[id] > 0 || r.optional[id] && id != "end" {
			continue
		}
		pause(ctx, time.Duration(r.random.Int64N(int64(150*time.Millisecond))))
		r.optional[id] = true
		out, err := call(ctx, d.Client, "signal_execution", rig.Args{"execution_id": r.id, "event": "pay", "value": id})
		if err != nil {
			return err
		}
		if !out.Success && id != "end" {
			return problemf("failed", "signal_execution returned %s", out.raw)
		}
		r.answered[id] = r.lives
		delete(r.optional, id)
	}
	return wait(ctx, r, d.Client)
}

// drivePlan makes a plan, approves it and applies it. A call that is unknown ends the plan.
func drivePlan(ctx context.Context, r *round, d *rig.Daemon) error {
	if r.id == "" {
		code := "from servers import ledger\nfor id in ids: ledger.add(id=id)"
		out, err := call(ctx, d.Client, "execute_code", rig.Args{"code": code, "context_vars": rig.Args{"ids": r.ids}, "dry_run": true})
		if err != nil {
			return err
		}
		if r.id = out.Plan; r.id == "" {
			return problemf("failed", "the dry run returned %s", out.raw)
		}
	}
	for !r.ended {
		out, err := call(ctx, d.Client, "resume_execution", rig.Args{"execution_id": r.id})
		if err != nil {
			return err
		}
		r.last = out.raw
		switch made := readEffects(r.file()); {
		case len(out.Calls) > 0:
			return finishPlan(r, out)
		case len(out.Questions) > 0:
			if _, err := answers(ctx, r, out.Questions); err != nil {
				return err
			}
		case strings.Contains(out.Error, "there is no plan") && len(made[answer]) == len(r.ids):
			r.ended = true
		default:
			return problemf("failed", "resume_execution of the plan returned %s; effects %v", out.raw, made)
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

// finishPlan compares the report of a plan with the effects.
func finishPlan(r *round, out outcome) error {
	r.ended = true
	made := readEffects(r.file())[effect]
	for i, c := range out.Calls {
		if c.State == "unknown" {
			r.count["unknown"]++
			r.decided[r.ids[i]] = &decision{word: c.State, begins: 1}
		}
		want := map[string]int{"done": 1, "not_made": 0, "unknown": made[r.ids[i]]}
		if n, ok := want[c.State]; !ok || n != made[r.ids[i]] || len(out.Calls) != len(r.ids) {
			return problemf("lost", "call %d was made %d times: %s", c.Call, made[r.ids[i]], out.raw)
		}
		r.optional[r.ids[i]] = c.State != "done"
	}
	if r.count["unknown"] > 1 {
		return problemf("reported", "%d calls are unknown: %s", r.count["unknown"], out.raw)
	}
	return nil
}

// driveSchedule waits for runs of a schedule, and for one after each kill, and then pauses it. Each run
// must have one effect, and runs may not be more than there were due times.
func driveSchedule(ctx context.Context, r *round, d *rig.Daemon) error {
	if r.began.IsZero() {
		r.began, r.ids = time.Now(), nil // each run makes an id of its own
	}
	for first := -1; ; pause(ctx, 20*time.Millisecond) {
		list, err := call(ctx, d.Client, "list_background_tasks", rig.Args{})
		if err != nil {
			return err
		}
		r.last = list.raw
		open := 0
		for _, x := range list.Executions {
			switch x.State {
			case "completed":
				continue
			case "input_required":
				err = reply(ctx, r, d.Client, x)
			case "failed", "cancelled", "interrupted":
				err = problemf("failed", "a run is %s", list.raw)
			}
			if open++; err != nil {
				return err
			}
		}
		ended := len(list.Executions) - open
		if first < 0 {
			first = ended
		}
		switch {
		case r.started && open == 0:
			return finishSchedule(ctx, r, d.Client, list)
		case !r.started && ended > first:
			if _, err := r.rig.Run(ctx, "schedules", "pause", "pay"); err != nil {
				return err
			}
			r.started = true
		}
	}
}

func finishSchedule(ctx context.Context, r *round, c *rig.Client, list outcome) error {
	if most := int(time.Since(r.began)/time.Second) + 2; len(list.Executions) > most {
		return problemf("doubled", "%d runs, and at most %d due times", len(list.Executions), most)
	}
	var ids []json.RawMessage
	for _, x := range list.Executions {
		out, err := call(ctx, c, "get_background_task_status", rig.Args{"execution_id": x.ID})
		if err != nil {
			return err
		}
		var run struct{ Result []json.RawMessage }
		if err := json.Unmarshal(out.Result, &run); err != nil || len(run.Result) != 1 {
			return problemf("lost", "the run is %s", out.raw)
		}
		ids = append(ids, run.Result[0])
	}
	all, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return finish(r, all)
}

// protocolTask is a task of MCP.
type protocolTask struct {
	ID       string `json:"taskId"`
	Status   string
	Requests map[string]struct {
		Params struct {
			Message string
			Schema  struct{ Properties map[string]any } `json:"requestedSchema"`
		}
	} `json:"inputRequests"`
	Result  *struct{ Content []struct{ Text string } }
	Content json.RawMessage
}

// driveTask executes code as a client that supports tasks and forms.
func driveTask(ctx context.Context, r *round, d *rig.Daemon) error {
	if err := find(ctx, r, d.Client); err != nil {
		return err
	}
	if r.ended || r.id != "" && !r.background {
		return foreground(ctx, r, d.Client, "", nil) // it was killed before it became a task
	}
	c := d.ConnectModern(rig.Args{"elicitation": rig.Args{"form": rig.Args{}},
		"extensions": rig.Args{"io.modelcontextprotocol/tasks": rig.Args{}}})
	defer c.Close()
	var t protocolTask
	if r.id == "" {
		r.started = true
		if err := c.Request(ctx, "tools/call", rig.Args{"name": "execute_code", "arguments": r.program(taskCode)}, &t); err != nil {
			return err
		}
		if r.id, r.background = t.ID, true; r.id == "" {
			return problemf("failed", "the answer is no task: %s", t.Content)
		}
	}
	for ; ; pause(ctx, 15*time.Millisecond) {
		t = protocolTask{}
		if err := c.Request(ctx, "tasks/get", rig.Args{"taskId": r.id}, &t); err != nil {
			return err
		}
		r.last = fmt.Sprintf("%+v", t)
		switch t.Status {
		case "completed":
			var out outcome
			if err := json.Unmarshal([]byte(t.Result.Content[0].Text), &out); err != nil {
				return err
			}
			return finish(r, out.Result)
		case "working":
		case "input_required":
			if err := update(ctx, r, c, t); err != nil {
				return err
			}
		default:
			return problemf("failed", "the task is %+v", t)
		}
	}
}

// update answers the questions of a task.
func update(ctx context.Context, r *round, c *rig.Client, t protocolTask) error {
	replies := rig.Args{}
	for name, q := range t.Requests {
		asked, field := question{ID: name, Question: q.Params.Message}, "answer"
		if _, ok := q.Params.Schema.Properties["outcome"]; ok {
			asked.Call, field = 1, "outcome"
		}
		word, err := answerOne(ctx, r, asked)
		if err != nil {
			return err
		}
		if word != "" {
			replies[name] = rig.Args{"action": "accept", "content": rig.Args{field: word}}
		}
	}
	if len(replies) == 0 {
		return nil
	}
	err := c.Request(ctx, "tasks/update", rig.Args{"taskId": t.ID, "inputResponses": replies}, &struct{}{})
	if err == nil {
		acknowledge(r, rig.Args{"answer": replies})
	}
	return err
}
