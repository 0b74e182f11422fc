package reply

import (
	"regexp"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// refusals are the operations that a sandbox refuses, with the alternative. The first row that
// matches decides.
var refusals = []struct {
	message *regexp.Regexp // of the exception
	call    string         // in the traceback; "" means any
	hint    string
}{
	// These are the worker's errors for absent network and programs: see python/unavailable.py.
	{regexp.MustCompile(`no sockets between processes here`), "", multiprocessingHint},
	{regexp.MustCompile(`^EOFError$`), "multiprocessing/connection.py", multiprocessingHint},
	{regexp.MustCompile(`no network here: use a tool`), "", networkHint},
	{regexp.MustCompile(`^name 'fetch' is not defined`), "", networkHint},
	{regexp.MustCompile(`programs other than Python cannot be started here`), "", useToolsHint},
	{regexp.MustCompile(`\[Errno -[235]\] `), "", networkHint},
	{regexp.MustCompile(`^\[Errno 2\]`), "exec", "only Python can run in the sandbox, and no other program: write it in Python, or use a " +
		"tool of a server"},
	{regexp.MustCompile(`^\[Errno 2\]`), "posix_spawn", "only Python can run in the sandbox, and no other program: write it in Python, " +
		"or use a tool of a server"},
	{regexp.MustCompile(`^\[Errno (2|13|20)\].*: '/(proc|sys)\b`), "",
		"/proc and /sys do not exist in the sandbox: use the modules os, platform and resource"},
	{regexp.MustCompile(`^(\[Errno (2|13|20)\].*|Access denied: path outside workspace): ` +
		`'(/(home|root|Users|mnt|media|opt|srv|var|data|content|kaggle)\b|~|[A-Za-z]:\\)`), "",
		"the files of the host are not visible: code sees /workspace only, to which write_workspace_file or the user (`sandpiper files " +
			"put`) add files"},
	{regexp.MustCompile(`^\[Errno 30\]`), "", "only /workspace, which is kept, and /tmp, which is deleted after the execution, are " +
		"writable"},
	{regexp.MustCompile(`^\[Errno (38|95)\]`), "flock", "flock is not available in the sandbox: use fcntl.lockf, or replace a file " +
		"atomically with os.replace"},
	{regexp.MustCompile(`^\[Errno 38\]`), "poll", "epoll is not available in the sandbox: use select.poll, or selectors.DefaultSelector"},
	{regexp.MustCompile(`^\[Errno 38\]`), "", "the sandbox does not have this system call: use another function"},
	{regexp.MustCompile(`Os \{ code: 38, kind: Unsupported`), "",
		"polars evaluates with epoll, which the sandbox does not have: use duckdb or pandas; the operator can allow it with sandbox.epoll"},
	{regexp.MustCompile(`^\[Errno 1\] Operation not permitted`), "mkfifo",
		"named pipes are not available in the sandbox: use os.pipe or multiprocessing.Pipe"},
	{regexp.MustCompile(`^\[Errno 1\] Operation not permitted`), "sendmsg",
		"sendmsg and recvmsg are not available in the sandbox: use send, sendall and recv"},
	{regexp.MustCompile(`^\[Errno 1\] Operation not permitted`), "recvmsg",
		"sendmsg and recvmsg are not available in the sandbox: use send, sendall and recv"},
	{regexp.MustCompile(`^\[Errno 1\] Operation not permitted`), "",
		"the sandbox has no privileges: it cannot change users, priorities, devices, mounts or other processes, so do without it"},
}

const multiprocessingHint = "sockets between processes are not available in the sandbox, and neither are multiprocessing.Manager, " +
	"Listener and forkserver: use Pool, Process, Queue, Pipe, shared_memory or socket.socketpair"

const useToolsHint = "use the tools of connected servers to reach anything outside: search_tools finds them"

// networkHint is for code that has no network.
const networkHint = "network access is off: use the tools of connected servers, which search_tools finds, or ask the operator to allow " +
	"hosts with network.allow in the configuration"

// refusalHint returns the alternative to a refused operation, "" if the exception has another
// reason.
func refusalHint(out sandbox.Outcome) string {
	for _, r := range refusals {
		if r.message.MatchString(out.Error) && (r.call == "" || strings.Contains(lastCall(out.Traceback), r.call)) {
			return r.hint
		}
	}
	return ""
}

// lastCall returns the lines of the last frame of a traceback.
func lastCall(traceback string) string {
	return traceback[max(0, strings.LastIndex(traceback, "  File ")):]
}
