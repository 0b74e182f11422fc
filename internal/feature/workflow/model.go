package workflow

import (
	"encoding/json"
	"fmt"
	"time"
)

// Pos is a position in a file. Lines and columns count from 1; columns count characters.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Finding is an error in a workflow.
type Finding struct {
	File    string `json:"file,omitempty"`
	Pos     `json:"pos"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // the next step: "did you mean …?"
}

// String returns FILE:LINE:COLUMN: message; hint.
func (f Finding) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	return text
}

// Workflow is a parsed workflow.
type Workflow struct {
	File        string // of its positions
	Name        string
	Description string
	Version     string
	Export      bool            // clients see it as a tool of that name
	Inputs      json.RawMessage // JSON schema of an object
	InputNames  []string
	anyInput    bool // the inputs are wrong, and their names not known
	Guardrails  Guardrails
	Steps       []*Step
	Outputs     []Field // none: the result is that of the last step
	Pos         Pos
	namePos     Pos
}

// Guardrails are the limits of a run. Policy and the limits of the tenant apply too.
type Guardrails struct {
	Tools    []string      `json:"tools,omitempty"`     // the only tools that it may call, SERVER.TOOL; nil means all
	Timeout  time.Duration `json:"timeout,omitempty"`   // 0 means that of executions
	MemoryMB int           `json:"memory_mb,omitempty"` // 0 means that of executions
}

// Types of steps.
const (
	ToolCall      = "tool_call"
	CodeExecution = "code_execution"
	Skill         = "skill"
	Condition     = "condition"
	Loop          = "loop"
	Parallel      = "parallel"
	Approval      = "approval"
	SubWorkflow   = "workflow"
	Wait          = "wait"
	Form          = "form"
)

// Step is a step of a workflow. Which of the fields after Backoff it has depends on its type.
type Step struct {
	Pos       Pos
	Name      string
	NamePos   Pos
	unnamed   bool // Name is not that of the file, which is wrong
	Type      string
	DependsOn []Ref
	Free      bool // depends_on is an empty list: the step does not wait for those before it in the file
	If        *Value
	OnError   string // "" means Stop
	Goto      Ref    // of OnError Goto
	Attempts  int    // 0 means 1
	Backoff   time.Duration
	Timeout   time.Duration // of each attempt; 0 means none
	timeoutAt Pos
	ConfigPos Pos

	Target    Ref     // the tool, skill or workflow
	Arguments []Field // of the target, of a wait or a form, or the variables of the code
	Code      string
	CodePos   Pos // of the first line of Code
	Test      *Value
	Over      *Value
	Until     *Value
	As        string // variable of a loop
	Max       int    // iterations of a loop; 0 means defaultIterations with Over
	Collect   *Value
	Question  *Value
	Schema    json.RawMessage // of the answer; nil means yes or no
	Blocks    []Block
}

// Actions after an error of a step.
const (
	Stop  = "stop"
	Skip  = "skip"
	Retry = "retry"
	Goto  = "goto"
)

// Block is a list of steps inside a step.
type Block struct {
	Name  string // then, else, steps or branch
	Steps []*Step
}

// Ref is a name with its position.
type Ref struct {
	Name string
	Pos  Pos
}

// Field is a named value.
type Field struct {
	Name  string
	Pos   Pos // of the name
	Value *Value
}

// Value is a value of a file: exactly one of its fields other than Pos is used.
type Value struct {
	Pos      Pos
	Plain    any      // null, bool, string, json.Number, if the others are nil
	Template []Part   // a text with expressions; a single expression is the value itself
	List     []*Value // not nil for a list
	Map      []Field  // not nil for a mapping
}

// Part is a text, or an expression.
type Part struct {
	Text string
	Expr string // Python; "" means that this is a text
	Pos  Pos    // of Expr
}

// expressions calls visit for each expression in v, in order.
func (v *Value) expressions(visit func(Part)) {
	if v == nil {
		return
	}
	for _, p := range v.Template {
		if p.Expr != "" {
			visit(p)
		}
	}
	for _, item := range v.List {
		item.expressions(visit)
	}
	for _, f := range v.Map {
		f.Value.expressions(visit)
	}
}

// isExpression reports whether v is a single expression.
func (v *Value) isExpression() bool { return len(v.Template) == 1 && v.Template[0].Expr != "" }

// all calls visit for the steps and those inside them.
func all(steps []*Step, visit func(*Step)) {
	for _, s := range steps {
		visit(s)
		for _, b := range s.Blocks {
			all(b.Steps, visit)
		}
	}
}
