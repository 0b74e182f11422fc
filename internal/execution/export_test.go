package execution

// CompileCode is the Python that CheckPython runs, for tests without Python.
const CompileCode = compileCode
