package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// user is the state of the client of a round and of its user. It is used by one goroutine at a time.
type user struct {
	random         *rand.Rand
	lives          int    // daemons that it has worked with
	id             string // of the execution, or of the plan
	started, ended bool
	background     bool
	decided        map[string]*decision // by write
	answered       map[string]int       // questions and signals: with which daemon their answer was acknowledged
	optional       map[string]bool      // writes that need not be made
	asked          string               // the question whose answer is on its way
	approved       map[string]int       // writes: 1 and how often they had been sent
	began          time.Time            // of the work
	away           time.Duration        // how long a question waits for half of its answers
	stored         map[string]*stored
	last           string // state, for reports
}

// decision is about a call whose outcome was unknown.
type decision struct {
	word         string
	life, begins int // the daemon, and how often the call had been sent
	acknowledged bool
}

func newUser(seed uint64) user {
	return user{
		random: rand.New(rand.NewPCG(seed, 0)), decided: map[string]*decision{},
		answered: map[string]int{}, optional: map[string]bool{}, approved: map[string]int{}, stored: newStored(),
	}
}

// outcome is the answer of a tool that executes, resumes or describes work.
type outcome struct {
	Success   bool
	Result    json.RawMessage
	Error     string
	ErrorType string `json:"error_type"`
	ID        string `json:"execution_id"`
	State     string
	Plan      string `json:"plan_id"`
	Questions []question
	Calls     []struct {
		Call  int
		State string
	}
	Executions []outcome
	raw        string
}

type question struct {
	ID, Question string
	Call         int    // of an unknown outcome
	Approval     string `json:"approval_id"`
}

func call(ctx context.Context, c *rig.Client, tool string, args rig.Args) (out outcome, err error) {
	res, err := c.Call(ctx, tool, args)
	if err == nil {
		err = res.Read(&out)
		out.raw = res.Text
	}
	return out, err
}

// find looks for work that was sent to a daemon that was killed before it answered with an id. Without
// a record, either nothing was sent upstream, or all of it was answered.
func find(ctx context.Context, r *round, c *rig.Client) error {
	if !r.started || r.id != "" || r.ended {
		return nil
	}
	for _, tool := range []string{"resume_execution", "list_background_tasks"} {
		list, err := call(ctx, c, tool, rig.Args{})
		if err != nil {
			return err
		}
		if len(list.Executions) > 1 {
			return problemf("doubled", "%s lists %s", tool, list.raw)
		}
		for _, x := range list.Executions {
			r.id, r.background = x.ID, tool == "list_background_tasks"
			return nil
		}
	}
	switch e := readEffects(r.file()); {
	case e.total(begin) == 0:
		r.count["again"]++
	case len(e[answer]) == len(r.ids):
		r.ended = true
	default:
		return problemf("lost", "%v was sent, and nothing is on record", e[begin])
	}
	return nil
}

// foreground starts work with a tool, or resumes it, and returns when it has ended.
func foreground(ctx context.Context, r *round, c *rig.Client, tool string, args rig.Args) error {
	err := find(ctx, r, c)
	switch {
	case err != nil || r.ended && r.id == "":
		return err
	case r.background:
		return wait(ctx, r, c)
	case r.id != "":
		tool, args = "resume_execution", rig.Args{"execution_id": r.id}
	}
	r.started = true
	for {
		out, err := call(ctx, c, tool, args)
		if err != nil {
			return err
		}
		if r.last = out.raw; openedAnother(out) {
			args = rig.Args{"execution_id": r.id}
			continue
		}
		acknowledge(r, args)
		switch {
		case out.Success:
			return finish(r, out.Result)
		case out.ErrorType == "suspended":
			r.id, r.background = out.ID, true
			return wait(ctx, r, c)
		case len(out.Questions) == 0:
			return problemf("failed", "%s %v returned %s", tool, args, out.raw)
		}
		r.id, tool = out.ID, "resume_execution"
		if args, err = answers(ctx, r, out.Questions); err != nil {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// wait waits for an execution in the background.
func wait(ctx context.Context, r *round, c *rig.Client) error {
	for ; ; pause(ctx, 15*time.Millisecond) {
		out, err := call(ctx, c, "get_background_task_status", rig.Args{"execution_id": r.id})
		if err != nil {
			return err
		}
		r.last = out.raw
		switch out.State {
		case "completed":
			var inner outcome
			if err := json.Unmarshal(out.Result, &inner); err != nil {
				return err
			}
			return finish(r, inner.Result)
		case "input_required":
			err = reply(ctx, r, c, out)
		case "queued", "running", "waiting":
		default:
			err = problemf("failed", "the execution is %s", out.raw)
		}
		if err != nil {
			return err
		}
	}
}

// reply answers the questions of an execution in the background.
func reply(ctx context.Context, r *round, c *rig.Client, out outcome) error {
	args, err := answers(ctx, r, out.Questions)
	if _, ok := args["answer"]; err != nil || !ok {
		return err
	}
	args["execution_id"] = out.ID
	got, err := call(ctx, c, "resume_execution", args)
	if err == nil && openedAnother(got) { // or that of the daemon that ran it before is shown until the next one has stored its own
		return nil
	}
	if err == nil && got.Error != "" && got.ErrorType == "" {
		err = problemf("failed", "the answer %v to %s: %s", args, out.raw, got.raw)
	}
	if err == nil {
		acknowledge(r, args)
	}
	return err
}

// openedAnother reports that an answer was refused, since another question has opened before it arrived, for a
// call in another thread.
func openedAnother(out outcome) bool { return strings.Contains(out.Error, "questions are open") }

// answers returns the arguments of resume_execution that answer questions, as far as they are not
// answered elsewhere.
func answers(ctx context.Context, r *round, all []question) (rig.Args, error) {
	values := rig.Args{}
	for _, q := range all {
		word, err := answerOne(ctx, r, q)
		if err != nil {
			return nil, err
		}
		if word != "" {
			values[q.ID] = word
		}
	}
	args := rig.Args{"execution_id": r.id}
	if len(all) == 1 && values[all[0].ID] != nil {
		args["answer"] = values[all[0].ID]
	} else if len(values) > 0 {
		args["answer"] = values
	}
	return args, nil
}

// answerOne answers a question in one of two ways: with the word that it returns, or elsewhere.
func answerOne(ctx context.Context, r *round, q question) (word string, err error) {
	switch life := r.answered[q.Approval+q.Question]; {
	case q.Call > 0:
		return decide(ctx, r, q)
	case life == r.lives, life > 0 && q.Approval != "": // the daemon has not read it yet, or shows what the one before has asked
		return "", nil
	case r.away > 0 && r.random.IntN(2) == 0:
		pause(ctx, r.away-time.Duration(r.random.Int64N(int64(r.away/4))))
	}
	switch life := r.answered[q.Approval+q.Question]; {
	case q.Approval != "":
		_, err := r.rig.Run(ctx, "approvals", "approve", q.Approval)
		r.answered[q.Approval+q.Question] = r.lives
		id := writeOf(q.Question)
		if begins := readEffects(r.file())[begin][id]; r.approved[id] == begins+1 && r.name != "plan" { // which is approved as a whole
			r.count["reapproved"]++
		} else {
			r.approved[id] = begins + 1
		}
		return "", err
	case life > 0:
		return "", problemf("lost", "the answer to %s", q.Question)
	}
	r.asked = q.Question
	return "yes", nil
}

// acknowledge records that answers were received.
func acknowledge(r *round, args rig.Args) {
	if _, ok := args["answer"]; !ok {
		return
	}
	if r.asked != "" {
		r.answered[r.asked] = r.lives
	}
	r.asked = ""
	for _, d := range r.decided {
		d.acknowledged = d.acknowledged || d.life == r.lives
	}
}

// decide returns the decision about a call, by its effect. The same call is asked about again only if it was
// made again, or the decision did not arrive.
func decide(ctx context.Context, r *round, q question) (word string, err error) {
	r.dying.Lock() // its upstream server may have an effect yet
	defer r.dying.Unlock()
	id, made := writeOf(q.Question), readEffects(r.file())
	if id == "" {
		return "", problemf("reported", "the question has no write: %s", q.Question)
	}
	d := r.decided[id]
	switch {
	case d != nil && d.begins == made[begin][id] && d.acknowledged && d.life < r.lives:
		return "", problemf("reported", "%s again, after %+v: %s", id, *d, q.Question)
	case d != nil && d.begins == made[begin][id] && d.acknowledged: // the daemon has not read it yet
		return "", nil
	case d == nil || d.begins < made[begin][id]:
		r.count["unknown"]++
		if err := checkShown(ctx, r, id); err != nil {
			return "", err
		}
	}
	word = "not-done"
	if made[effect][id] > 0 {
		word = "done"
	}
	r.decided[id] = &decision{word: word, life: r.lives, begins: made[begin][id]}
	return word, nil
}

// checkShown checks that the list of approvals has one question about a write.
func checkShown(ctx context.Context, r *round, id string) error {
	text, err := r.rig.Run(ctx, "approvals", "list", "--json")
	if n := strings.Count(string(text), fmt.Sprintf(`"arguments":{"id":%q`, id)); err == nil && n != 1 {
		err = problemf("reported", "%s is shown %d times: %s", id, n, text)
	}
	return err
}

var writeID = regexp.MustCompile(`"id": ?"([^"]+)"`)

// writeOf returns the id of the write that a question shows.
func writeOf(question string) string {
	if m := writeID.FindStringSubmatch(question); m != nil {
		return m[1]
	}
	return ""
}

// finish compares the result, a list of ids with null for calls that a person decided about, with the
// effects.
func finish(r *round, result json.RawMessage) error {
	var list []*string
	var outputs struct{ IDs json.RawMessage } // of the workflow
	if json.Unmarshal(result, &outputs) == nil {
		result = outputs.IDs
	}
	if err := json.Unmarshal(result, &list); err != nil {
		return problemf("lost", "the result is %s", result)
	}
	r.ended = true
	made, seen := readEffects(r.file())[effect], map[string]bool{}
	for _, id := range list {
		if id != nil && (made[*id] == 0 || seen[*id]) {
			return problemf("lost", "%s, of the result %s, was made %d times", *id, result, made[*id])
		}
		if id != nil {
			seen[*id] = true
		}
	}
	for id := range made {
		if d := r.decided[id]; !seen[id] && (d == nil || d.word != "done") {
			return problemf("lost", "%s is not in the result %s", id, result)
		}
	}
	if len(list) != len(made) {
		return problemf("lost", "%d writes were made, and the result is %s", len(made), result)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
