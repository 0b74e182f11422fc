package servers

import "os/exec"

func prepare(*exec.Cmd) {}

func stop(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
