package sandboxtest

// Gap is a way around the check of restricted code that docs/restricted.md
// admits.
type Gap struct {
	Name    string // a sentence without its stop, as the page has it
	Code    string // Python that shows it
	Result  string // the JSON of its result where the gap is there
	Escapes bool   // code that goes through it has all of Python, by the variable load, the real __import__
}

// Gaps are all that are known.
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
