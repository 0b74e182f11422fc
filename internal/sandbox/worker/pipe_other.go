//go:build !unix

package worker

import (
	"syscall"
	"time"
)

func (p *pipe) pump() {}

func (p *pipe) drain() {}

func pollable(any) syscall.RawConn { return nil }

func writeNow(syscall.RawConn, []byte) int { return 0 }

func readWithin(syscall.RawConn, []byte, time.Duration) int { return 0 }
