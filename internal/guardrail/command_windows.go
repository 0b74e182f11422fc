package guardrail

import "os/exec"

// alone does nothing: exec ends the program itself, and what it started sees the
// end of its streams.
func setProcessGroup(*exec.Cmd) {}

func killProcessGroup(*exec.Cmd) {}
