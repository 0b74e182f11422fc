package execution

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// requiredSandbox returns the strongest sandbox that policy requires for the servers that the code
// names, and the module of the server. The code is searched as text, before there is a sandbox in
// which it could be parsed: a name in a comment counts, which only makes the sandbox stronger. Each
// call is checked again, so that a name that is hidden from the search gives the code nothing.
func requiredSandbox(ctx context.Context, e *executor) (required policy.Requirement, module string, err error) {
	tools := e.r.cfg.Tools
	if tools == nil || e.run.internal || !tools.Calls.RequiresSandbox() {
		return required, "", nil
	}
	w, err := wordsOfCode(ctx, e)
	if err != nil {
		return required, "", err
	}
	for _, v := range e.r.cfg.Tools.For(e.home.ID(), e.run.Request.Subset).Now().Servers {
		if !w.nameServer(v, e.r.cfg.Network.Server) {
			continue
		}
		if one := tools.Calls.MayRequire(e.home.ID(), v.Name); !required.Sandbox.Satisfies(one.Sandbox) {
			required, module = one, v.Module
		}
	}
	return required, module, nil
}

// words are the words of code.
type words struct {
	all     map[string]bool
	network bool // the code may send requests
}

// wordsOfCode returns the words of the code, of short variables, and of the skills that it names; for
// a step that is replayed, those of the whole session.
func wordsOfCode(ctx context.Context, e *executor) (words, error) {
	w := words{all: map[string]bool{}}
	w.add(e.run.Request.Code)
	if again := e.run.Request.Replay; again != nil {
		for _, s := range again.Session {
			w.add(s.Code)
		}
	}
	w.addVariables(e.run.Request.Vars)
	return w, w.addSkills(ctx, e)
}

func (w *words) add(text string) {
	w.network = w.network || pycode.UsesNetwork(text)
	for word := range strings.FieldsFuncSeq(text, isNoWord) {
		w.all[word] = true
	}
}

func isNoWord(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// addVariables adds the values that can be the name of a server.
func (w *words) addVariables(vars json.RawMessage) {
	const longest = 200 // bytes
	var all map[string]json.RawMessage
	if len(vars) == 0 || json.Unmarshal(vars, &all) != nil { // the request has been checked
		return
	}
	for _, raw := range all {
		var text string
		if len(raw) <= longest && json.Unmarshal(raw, &text) == nil {
			w.add(text)
		}
	}
}

// maxSkillBytes limits the code of skills that is searched for one execution.
const maxSkillBytes = 2 << 20

// addSkills adds the code of the skills that the words name, and of those that these name.
func (w *words) addSkills(ctx context.Context, e *executor) error {
	if !w.all["skills"] && !w.all["load_skill"] {
		return nil
	}
	left, err := e.home.Skills.List(ctx)
	if err != nil {
		return err
	}
	for bytes := 0; bytes < maxSkillBytes; {
		i := slices.IndexFunc(left, func(m skill.Metadata) bool { return w.all[m.Name] })
		if i < 0 {
			return nil
		}
		found, err := e.home.Skills.Find(ctx, left[i].Name, 0)
		if err != nil && fault.KindOf(err) != fault.NotFound { // it may have been deleted now
			return err
		}
		left = slices.Delete(left, i, i+1)
		w.add(found.Code)
		bytes += len(found.Code)
	}
	return nil
}

// nameServer reports whether the words may be of code that uses a server: one that imports servers
// or calls tools by name, and has all words of the server's name. Requests name no server, and
// are calls of the server network.
func (w *words) nameServer(v catalog.Server, network string) bool {
	if v.Name == network && w.network {
		return true
	}
	if !w.all["servers"] && !w.all["call_tool"] && !w.all["call_mcp_tool"] {
		return false
	}
	return w.all[v.Module] || !slices.ContainsFunc(strings.FieldsFunc(v.Name, isNoWord), func(word string) bool { return !w.all[word] })
}

// checkSandbox returns an error if the code may not run in the live interpreter of its session. The
// interpreter is not replaced, since that would lose the variables of earlier calls.
func checkSandbox(ctx context.Context, e *executor, in policy.Sandbox) error {
	required, module, err := requiredSandbox(ctx, e)
	if err != nil || in.Satisfies(required.Sandbox) {
		return err
	}
	return fault.New(fault.Denied, "the code was not run: it names server %s, policy requires the sandbox %s for it (%s), and session %q "+
		"runs in %s; a running session keeps its sandbox",
		module, required.Sandbox, required.By(), e.run.Request.SessionID, in).
		WithHint("use another session_id, whose first code names the server: `from servers import %s`", module)
}
