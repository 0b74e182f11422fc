package servers

import (
	"os/exec"
	"testing"
)

func asOrdinaryUser(_ testing.TB, cmd *exec.Cmd, dir string) { cmd.Dir = dir }

func prepare(testing.TB, *exec.Cmd) {}

func stop(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
