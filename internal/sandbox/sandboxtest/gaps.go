package sandboxtest

// Gap is a known bypass of the check of restricted code, documented in docs/restricted.md.
type Gap struct {
	Name    string // a sentence without a full stop, as in the page
	Code    string // Python that uses the gap
	Result  string // JSON of the result if the gap exists
	Escapes bool   // the gap gives access to all of Python: the variable load is the real __import__
}

// Gaps are all known gaps.
var Gaps = []Gap{{
	Name:   "Text formatting reads attributes, as text",
	Code:   `"{0.__class__.__base__}".format(1)`,
	Result: `"<class 'object'>"`,
}, {
	Name:   "A parameter named self gives access to the private attributes of any object",
	Code:   "def target(self): return self._target\nimport threading\ntarget(threading.Thread(target=len))([1, 2])",
	Result: `2`,
}, {
	Name: "Private attributes of a library's objects can give access to forbidden modules",
	Code: `import copy, typing
def rename(self): self._name = "__builtins__"
alias = typing.List[int].copy_with(("__import__",))
rename(alias)
load = copy.copy(alias)
load("os").getpid() > 0`,
	Result:  `true`,
	Escapes: true,
}, {
	Name:   "Classes of a library can be changed for the rest of the session",
	Code:   "def default(self, o): return 'changed'\njson.JSONEncoder.default = default\njson.dumps(object())",
	Result: `"\"changed\""`,
}}
