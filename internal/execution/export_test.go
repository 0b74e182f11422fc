package execution

// CompileCode is the Python that CheckPython runs, for tests without Python.
const CompileCode = compileCode

// Latest returns the latest progress of an execution and its number.
func Latest(x *Execution) (Progress, int) {
	p, n, _ := x.run.latest()
	return p, n
}
