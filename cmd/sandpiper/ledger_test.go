package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// ledger is an MCP server that records each call of `add` in the file of its argument, on
// disk before it answers, so that tests can count the calls.
func ledger() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments struct{ N int }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch {
		case m.Method == "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"ledger","version":"1"}}}`+"\n", m.ID)
		case m.Method == "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"add","inputSchema":{"type":"object","additionalProperties":true,"properties":{"n":{"type":"integer"},"at":{"type":"number"},"by":{"type":"number"},"seen":{"type":"integer"}}}},{"name":"look","inputSchema":{"type":"object","additionalProperties":true,"properties":{"n":{"type":"integer"},"at":{"type":"number"},"by":{"type":"number"},"seen":{"type":"integer"}}},"annotations":{"readOnlyHint":true}},{"name":"wait","inputSchema":{"type":"object"}}]}}`+"\n", m.ID)
		case m.Method == "tools/call" && m.Params.Name == "wait": // never answers
		case m.Method == "tools/call" && m.Params.Name == "add":
			time.Sleep(rand.N(4 * time.Millisecond)) // so that the daemon is killed before and after
			enter(m.Params.Arguments.N)
			time.Sleep(rand.N(4 * time.Millisecond))
			fallthrough
		case m.Method == "tools/call":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%d"}]}}`+"\n", m.ID, m.Params.Arguments.N)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
		}
	}
}

func enter(n int) {
	f, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, n)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// entered counts the calls by number.
func entered(t *testing.T, path string) map[int]int {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := map[int]int{}
	for {
		var n int
		if _, err := fmt.Fscan(f, &n); err != nil {
			return count
		}
		count[n]++
	}
}
