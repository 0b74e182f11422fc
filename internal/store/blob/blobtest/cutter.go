package blobtest

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// cutter forwards connections to a server. While cut is set, it ends a connection when the server answers, and
// does not pass the answer on.
type cutter struct {
	t   testing.TB
	cut atomic.Bool
}

func newCutter(t testing.TB) *cutter { return &cutter{t: t} }

// listen returns the address at which a server can be reached.
func (c *cutter) listen(server string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.forward(client, server)
		}
	}()
	return l.Addr().String()
}

func (c *cutter) forward(client net.Conn, server string) {
	defer client.Close()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, client)
		up.Close()
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := up.Read(buffer)
		if err != nil || c.cut.Load() {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
