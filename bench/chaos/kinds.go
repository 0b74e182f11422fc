package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// kind is a kind of work.
type kind struct {
	writes   int
	anywhere bool     // another daemon than that of the client may do it
	settings rig.Args // of the configuration
	prepare  func(context.Context, *round) error
	// drive does the work until it has ended, or continues it after a kill. It returns rig.ErrGone if the
	// daemon is killed.
	drive func(context.Context, *round, *rig.Daemon) error
}

func kinds() map[string]kind {
	ask := rig.Args{"policy": rig.Args{"rules": []rig.Args{{"tool": "ledger.add", "decision": "ask"}}}}
	return map[string]kind{
		"write":      {writes: 5, drive: execute(writeCode)},
		"step":       {writes: 5, drive: execute(stepCode)},
		"approval":   {writes: 2, settings: ask, drive: execute(writeCode)},
		"question":   {writes: 3, drive: execute(questionCode)},
		"workflow":   {writes: 6, prepare: saveWorkflow, drive: driveWorkflow},
		"answer":     {writes: 2, anywhere: true, settings: ask, drive: driveAnswer},
		"background": {writes: 5, anywhere: true, drive: driveBackground},
		"wait":       {writes: 3, anywhere: true, drive: driveWait},
		"plan":       {writes: 5, drive: drivePlan},
		"schedule":   {writes: 2, anywhere: true, settings: everySecond, prepare: saveSkill, drive: driveSchedule},
		"task":       {writes: 4, anywhere: true, drive: driveTask},
		"store":      {drive: driveStore},
	}
}

const begins = "import random, time\nfrom servers import ledger\n" +
	"def pay(id): return ledger.add(id=id, seen=ledger.look(id=id, by=time.time()), by=random.random())\n"

// The programs. They return the ids that the upstream server returned.
const (
	writeCode = begins + "result = [pay(id) for id in ids]"
	stepCode  = begins + `
result = []
for id in ids:
    by = step("number", random.random)
    result.append(step("pay", lambda: [pay(id), random.random()])[0])
    if by != step("same", lambda: by): raise ValueError(by)
`
	questionCode = begins + `
result = []
for id in ids:
    if ask("Pay " + id + "?", {"enum": ["yes", "no"]}) != "yes": raise ValueError(id)
    result.append(pay(id))
`
	waitCode = begins + `
result = []
while (id := wait_for("pay")) != "end": result.append(pay(id))
`
	taskCode = begins + `
result = [pay(ids[0])]
sleep_for(1.1)
result += [pay(ids[1]), pay(ids[2])]
if ask("Pay " + ids[3] + "?", {"enum": ["yes", "no"]}) != "yes": raise ValueError()
result.append(pay(ids[3]))
`
)

// execute returns the work of executing code while the client waits.
func execute(code string) func(context.Context, *round, *rig.Daemon) error {
	return func(ctx context.Context, r *round, d *rig.Daemon) error {
		return foreground(ctx, r, d.Client, "execute_code", r.program(code))
	}
}

func (r *round) program(code string) rig.Args {
	return rig.Args{"code": code, "context_vars": rig.Args{"ids": r.ids}}
}

const workflowSource = `
name: pay
inputs: {properties: {ids: {type: array, items: {type: string}}}}
steps:
  - {name: look, type: tool_call, config: {tool: ledger.look, arguments: {id: a}}}
  - {name: one, type: tool_call, config: {tool: ledger.add, arguments: {id: "${{ inputs.ids[0] }}", seen: "${{ steps.look.result }}"}}}
  - name: by
    type: code_execution
    config: {code: "import random\nreturn random.random()"}
  - name: each
    type: loop
    config:
      over: ${{ inputs.ids[1:3] }}
      as: write_id
      collect: ${{ steps.write.result }}
      steps: [{name: write, type: tool_call, config: {tool: ledger.add, arguments: {id: "${{ write_id }}", by: "${{ steps.by.result }}"}}}]
  - name: both
    type: parallel
    config:
      branches:
        - [{name: left, type: tool_call, config: {tool: ledger.add, arguments: {id: "${{ inputs.ids[3] }}"}}}]
        - [{name: right, type: tool_call, config: {tool: ledger.add, arguments: {id: "${{ inputs.ids[4] }}"}}}]
  - {name: last, type: tool_call, depends_on: both, config: {tool: ledger.add, arguments: {id: "${{ inputs.ids[5] }}"}}}
outputs:
  ids: ${{ [steps.one.result, *steps.each.result, *steps.both.result, steps.last.result] }}
`

func saveWorkflow(_ context.Context, r *round) error {
	dir := filepath.Join(r.rig.Dir(), "config", "sandpiper", "workflows")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pay.yaml"), []byte(workflowSource), 0o600)
}

func driveWorkflow(ctx context.Context, r *round, d *rig.Daemon) error {
	return foreground(ctx, r, d.Client, "run_workflow", rig.Args{"name": "pay", "inputs": rig.Args{"ids": r.ids}})
}

var everySecond = rig.Args{"schedules": []rig.Args{{"name": "pay", "every": "1s", "run": rig.Args{"skill": "pay"}}}}

func saveSkill(ctx context.Context, r *round) error {
	c := r.rig.Command(ctx, "skills", "save", "pay", "-")
	c.Stdin = strings.NewReader("import random\nfrom servers import ledger\n\ndef pay():\n    id = str(random.random())\n    return " +
		"[ledger.add(id=id, seen=ledger.look(id=id))]\n")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
