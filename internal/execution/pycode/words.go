package pycode

import (
	"slices"
	"strings"
)

// hostWords occur in code that may reach anything outside its sandbox, or ask. Other
// code needs no record.
var hostWords = []string{"servers", "call_tool", "call_mcp_tool", "skill", "ask", "resource", "prompt", "step", "sleep_", "wait_for"}

// networkWords occur in code that may send HTTP requests.
var networkWords = []string{"fetch", "http", "url", "requests", "socket"}

// NeedsRecord reports whether code, of a tenant that may have the network, may reach anything outside its
// sandbox, or ask. more are words of features, as hostcall.Source has them.
func NeedsRecord(code string, network bool, more ...string) bool {
	return containsAny(code, hostWords) || containsAny(code, more) || network && UsesNetwork(code)
}

// concurrencyWords occur in code that may do several things concurrently. Concurrent
// code without any of them is only compared too strictly with its record.
var concurrencyWords = []string{"parallel", "hread", "async", "await", "aio", "concurrent", "multiprocessing", "skills", "spawn"}

func containsAny(code string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(code, w) })
}

// MayBeConcurrent reports whether code may do several things concurrently.
func MayBeConcurrent(code string) bool { return containsAny(code, concurrencyWords) }

// UsesNetwork reports whether code may send HTTP requests.
func UsesNetwork(code string) bool { return containsAny(code, networkWords) }
