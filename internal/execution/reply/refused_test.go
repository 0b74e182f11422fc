package reply

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

func TestRefusedOperationsHaveAnAlternative(t *testing.T) {
	for _, tc := range []struct{ kind, message, call, want string }{
		{"gaierror", "[Errno -2] Name or service not known", `gethostbyname("example.com")`, "network access is off"},
		{"URLError", "<urlopen error [Errno -2] no network here: use a tool of a server (search_tools finds one)>", "urlopen(u)",
			"use the tools of connected servers"},
		{"FileNotFoundError", "[Errno 2] No such file or directory: '/proc/cpuinfo'", `open("/proc/cpuinfo")`,
			"/proc and /sys do not exist"},
		{"FileNotFoundError", "[Errno 2] No such file or directory: '/home/ada/x.csv'", `open("/home/ada/x.csv")`,
			"the files of the host are not visible"},
		{"FileNotFoundError", "[Errno 2] No such file or directory", `os.execv("/bin/ls", ["ls"])`, "only Python can run"},
		{"FileNotFoundError", "[Errno 2] No such file or directory: '/bin/ls'", `os.posix_spawn("/bin/ls", ["ls"], {})`,
			"only Python can run"},
		{"FileNotFoundError", "[Errno 2] No such file or directory: 'x.csv'", `open("x.csv")`, ""},
		{"OSError", "[Errno 30] Read-only file system: '/etc/x'", `open("/etc/x", "w")`, "only /workspace"},
		{"OSError", "[Errno 38] Function not implemented", "fcntl.flock(f, fcntl.LOCK_EX)", "use fcntl.lockf"},
		{"OSError", "[Errno 38] Function not implemented", "selectors.EpollSelector()", "use select.poll"},
		{"OSError", "[Errno 38] Function not implemented", "os.pidfd_open(1)", "use another function"},
		{"PanicException", "called `Result::unwrap()` on an `Err` value: Os { code: 38, kind: Unsupported, message: \"Function not " +
			"implemented\" }", "pl.read_csv(f)", "use duckdb or pandas"},
		{"PermissionError", "[Errno 1] no sockets between processes here: use multiprocessing.Queue or Pipe, or socket.socketpair",
			"socket.socket(socket.AF_UNIX)", "use Pool, Process, Queue"},
		{"EOFError", "EOFError", "m.Manager()\n  File \"multiprocessing/connection.py\", line 440, in _recv\n    raise EOFError",
			"use Pool, Process, Queue"},
		{"EOFError", "EOFError", "getpass.getpass()", ""},
		{"PermissionError", "[Errno 1] Operation not permitted", `os.mkfifo("f")`, "os.pipe"},
		{"PermissionError", "[Errno 1] Operation not permitted", `s.sendmsg([b"x"])`, "sendall"},
		{"PermissionError", "[Errno 1] Operation not permitted", "os.setuid(0)", "no privileges"},
		{"PermissionError", "Access denied: path outside workspace: '../x'", "read_file('../x')", ""},
		{"ValueError", "no", "f()", ""},
	} {
		out := sandbox.Outcome{Status: sandbox.Raised, ErrorType: tc.kind, Error: tc.message,
			Traceback: "Traceback (most recent call last):\n  File \"<code>\", line 1, in exec_all\n    exec_all()\n  File \"<code>\", " +
				"line 2, in <module>\n    " + tc.call + "\n" + tc.kind + ": " + tc.message + "\n"}
		var r Result
		Limits{}.Explain(&r, out, nil)
		if (tc.want == "") != (r.Hint == "") || !strings.Contains(r.Hint, tc.want) {
			t.Errorf("%s: %s\nhint %q, want %q", tc.call, tc.message, r.Hint, tc.want)
		}
	}
}
