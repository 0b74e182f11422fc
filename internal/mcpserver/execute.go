package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// The description of execute_code, which costs every client tokens on every turn: the
// available names and the form of the answer. In the lean profile help() lists the
// globals.
const (
	aboutExecute = "Run Python 3.14 with " + wholeLibrary + " in a sandbox: " + noNetwork + noPackages +
		". Files in /workspace persist, variables only with a session_id. " +
		"Filter and compute over data here and return a summary: `result` (else the last expression) and prints.\n" +
		"Globals (see help()): read_file write_file list_files delete_file save_skill load_skill list_skills " +
		"filter_by_field summarize_list aggregate_stats format_output checkpoint progress " + lastGlobal +
		"; ask(question, json_schema=None) asks the person. " +
		"Saved functions: `from skills import NAME`."
	aboutExecuteLean = "Run Python 3.14 with " + wholeLibrary + ", " + withoutNetwork +
		". Files in /workspace persist, variables with a session_id. " +
		"Return a summary: `result` (else the last expression) and prints. help() lists globals."
)

// The description of privacy tokens for the model.
const (
	aboutTokens       = "\nTokens like [EMAIL_…] replace personal data; strings in code may use them as the values."
	aboutTokensStrict = "\nTokens like [EMAIL_…] replace personal data, in code too: pass them on as they are."
)

// The available library, which a restriction can replace. An import error lists all
// modules, so they are not listed here.
const (
	noPackages = ", no packages"
	// The network, and what is available of it if the tenant may send requests.
	noNetwork      = "no network"
	withoutNetwork = "without network"
	aboutNetwork   = " but fetch(url, method, headers=, json=, data=) and HTTP libraries, to "
	wholeLibrary   = "its standard library"
	lastGlobal     = "show"
)

// executeTools are execute_code and resume_execution.
type executeTools struct{ *Server }

func (s executeTools) all(a audience) []builtin.Tool {
	return []builtin.Tool{s.executeTool(a), s.resumeTool()}
}

func (s executeTools) executeTool(a audience) builtin.Tool {
	l, about := a.limits, aboutExecute
	if a.profile == builtin.Lean {
		about = aboutExecuteLean
	}
	if part := s.cfg.Runner.Restriction; part.On() {
		about = strings.Replace(about, wholeLibrary, part.Library, 1)
	} else if a.packages != "" {
		about = strings.Replace(about, wholeLibrary, wholeLibrary+" and "+a.packages, 1)
		about = strings.Replace(about, noPackages, "", 1)
	}
	if a.network != "" {
		for _, none := range []string{noNetwork, withoutNetwork} {
			about = strings.Replace(about, none, none+aboutNetwork+a.network, 1)
		}
	}
	if s.cfg.About != "" && a.profile != builtin.Lean {
		about += "\n" + s.cfg.About
	}
	if a.profile != builtin.Lean && s.cfg.Globals != "" { // whose description has no room for it
		about = strings.Replace(about, lastGlobal, lastGlobal+" "+s.cfg.Globals, 1)
	}
	switch a.mode {
	case redact.Egress:
		about += aboutTokens
	case redact.Strict:
		about += aboutTokensStrict
	}
	execute := builtin.Tool{
		Name: "execute_code", Profile: builtin.Lean, Description: about + aboutServers(a), AlwaysLoad: true, SearchHint: a.topics,
		MaxChars: 100_000,
		Params: []builtin.Param{
			{Name: "code", Kind: builtin.Text, Required: true, MaxBytes: pycode.MaxBytes},
			{Name: "context_vars", Kind: builtin.Object, MaxBytes: execution.MaxVarsBytes},
			{Name: "timeout_seconds", Kind: builtin.Number, Default: l.Timeout.Seconds()},
			{Name: "memory_mb", Kind: builtin.Integer, Default: l.MemoryMB},
			{Name: "session_id", Kind: builtin.Text, Source: builtin.SessionIDs},
			{Name: "dry_run", Kind: builtin.Boolean, Description: "Only plan changes"},
		},
		Hints: wire.Hints{Destructive: true}, // may overwrite and delete files
		Start: s.execute,
	}
	if a.profile == builtin.Full {
		execute.Params = append(execute.Params, builtin.Param{Name: "task_description", Kind: builtin.Text,
			Description: "For the session's log"})
	}
	return execute
}

// aboutServers describes the connected servers in the description of execute_code.
func aboutServers(a audience) string {
	switch {
	case a.servers == "":
		return ""
	case a.profile == builtin.Lean:
		return "\nMCP tools are functions: search_tools, then `from servers." + a.example + " import TOOL`. Servers: " + a.servers + "." +
			aboutTopics(a.topics, maxLeanTokens)
	}
	return "\nMCP tools are functions, found by search_tools: `from servers." + a.example + " import TOOL`; failures raise ToolError. " +
		"parallel(lambda: f(…), …) calls several at once. Servers: " + a.servers + "." + aboutTopics(a.topics, maxTopicTokens)
}

func (s executeTools) execute(ctx context.Context, c builtin.Call) (*execution.Execution, error) {
	var args struct {
		Code    string          `json:"code"`
		Vars    json.RawMessage `json:"context_vars"`
		Timeout *float64        `json:"timeout_seconds"`
		Memory  *float64        `json:"memory_mb"`
		Session string          `json:"session_id"`
		DryRun  bool            `json:"dry_run"`
		Task    string          `json:"task_description"`
	}
	if err := c.Read(&args); err != nil {
		return nil, err
	}
	req := execution.Request{
		Code:        args.Code,
		Vars:        args.Vars,
		SessionID:   args.Session,
		DryRun:      args.DryRun,
		Subset:      c.Subset,
		Client:      c.Client,
		Commands:    withoutPages(c.Commands),
		Description: args.Task,
	}
	// In a Request 0 means the default; from a client it is invalid.
	limits := s.cfg.Runner.Limits(c.Home.ID())
	if args.Timeout != nil {
		req.Timeout = execution.Seconds(*args.Timeout)
		if err := limits.CheckTimeout(req.Timeout); err != nil {
			return nil, err
		}
	}
	if args.Memory != nil {
		req.MemoryMB = int(builtin.Int64(*args.Memory))
		if err := limits.CheckMemory(req.MemoryMB); err != nil {
			return nil, err
		}
	}
	return s.cfg.Runner.Start(ctx, c.Home, req)
}

// follower lets calls follow executions: it forwards progress and questions until they end, wait, or become tasks.
type follower struct{ *Server }

// follow forwards progress until the execution ends. The call's context does not end the
// wait: it ends the execution, whose outcome has the reason.
func (s follower) follow(ctx context.Context, c builtin.Call, x *execution.Execution) (redact.Message, error) {
	done, suspended, err := s.followResult(ctx, c, x)
	if done != nil {
		if c.Tool.OwnCode {
			done.Traceback = ""
		}
		return builtin.Answer(*done, c.Commands), nil
	}
	return suspended, err
}

// followResult is follow for the result, which is nil if the execution was suspended; then the
// message says so.
func (s follower) followResult(ctx context.Context, c builtin.Call, x *execution.Execution) (done *reply.Result, suspended redact.Message,
	err error) {
	*c.Session = x.Session()
	shown, failed := s.newClientQuestions(ctx, c, x)
	defer func() { shown.end() }()
	began, now := time.Now(), c // what is waited for with
	for {
		e, err := nextEvent(failed, now, x, began)
		switch {
		case errors.Is(err, errTask) && failed.Err() == nil:
			if is, err := protocolTasks(s).detach(ctx, c, x); is || err != nil {
				return nil, redact.Message{Body: ""}, err
			}
			now.Task = nil // it has to be waited for, but may be about to wait without a worker
		case err != nil && failed.Err() != nil:
			s.cfg.Log.Debug("the client could not be asked", "error", context.Cause(failed))
			shown.end()
			if open := x.Questions(); len(open) > 0 {
				suspended, err := s.suspend(ctx, c, x, open)
				return nil, suspended, err
			}
			shown, failed = s.newClientQuestions(ctx, c, x) // answered by another client or command
		case err != nil:
			return nil, redact.Message{}, err
		case e.Progress != nil:
			s.progress(ctx, c, *e.Progress)
		case e.Questions != nil:
			if s.answerQuestion(ctx, &c, x, e.Questions) {
				continue
			}
			if c.Ask == nil {
				suspended, err := s.suspend(ctx, c, x, e.Questions)
				return nil, suspended, err
			}
			shown.put(e.Questions)
		case e.Done != nil && protocolTasks(s).suspendedTask(ctx, c, e.Done):
			return nil, redact.Message{Body: ""}, nil
		case e.Done != nil:
			return e.Done, redact.Message{}, nil
		}
	}
}

// progress notifies the client, if it asked for progress. Failed notifications do not
// end the execution.
func (s follower) progress(ctx context.Context, c builtin.Call, p live.Progress) {
	if c.Progress == nil {
		return
	}
	note, err := c.Gate().Redact(ctx, p.Message)
	if err == nil {
		err = c.Progress(ctx, p.Done, p.Total, note)
	}
	if err != nil {
		s.cfg.Log.Debug("progress was not sent", "error", err)
	}
}

func (s executeTools) resumeTool() builtin.Tool {
	return builtin.Tool{
		Name: "resume_execution", Profile: builtin.Lean,
		Description: "Resume a waiting or interrupted execution, or apply a plan.",
		Params: []builtin.Param{
			{Name: "execution_id", Kind: builtin.Text, Description: "Absent: lists them", Source: resumableIDs(s.cfg.Runner)},
			{Name: "session_id", Kind: builtin.Text, Source: builtin.SessionIDs},
			{Name: "answer", Kind: builtin.Anything, Description: "The person's, never yours"},
		},
		MaxChars: 100_000,
		Hints:    wire.Hints{Destructive: true},
		Run:      follower(s).resume,
	}
}
