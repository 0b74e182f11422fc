package process

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// hostFacts are the settings of a host that can prevent a sandbox.
type hostFacts struct {
	root              bool
	usernsClone       string // kernel.unprivileged_userns_clone, of Debian's older kernels
	maxUserNamespaces string // user.max_user_namespaces
	appArmorUserns    string // kernel.apparmor_restrict_unprivileged_userns
	filtered          bool   // this process runs under a seccomp filter, as in a container
}

func readHostFacts() hostFacts {
	sys := func(name string) string {
		b, _ := os.ReadFile("/proc/sys/" + name)
		return strings.TrimSpace(string(b))
	}
	return hostFacts{
		root:              os.Geteuid() == 0,
		usernsClone:       sys("kernel/unprivileged_userns_clone"),
		maxUserNamespaces: sys("user/max_user_namespaces"),
		appArmorUserns:    sys("kernel/apparmor_restrict_unprivileged_userns"),
		filtered:          procStatus("/proc/self/status")["Seccomp"] == "2",
	}
}

// procStatus returns the fields of a /proc/<pid>/status file.
func procStatus(file string) map[string]string {
	b, _ := os.ReadFile(file)
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			out[k] = strings.TrimSpace(v)
		}
	}
	return out
}

// remedyFor returns the layer that failed and a remedy for the operator.
func remedyFor(err error) (layer, remedy string) { return readHostFacts().remedy(err) }

func (f hostFacts) remedy(err error) (layer, remedy string) {
	step := ""
	if e, ok := errors.AsType[*setupError](err); ok {
		step = e.step
	}
	denied := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) ||
		strings.Contains(err.Error(), "operation not permitted") || strings.Contains(err.Error(), "permission denied")
	switch {
	case fault.Inconclusive(err):
		return "start", "the machine is busy, or something is short, at the moment: run the code again, then `sandpiper doctor` (" +
			err.Error() + ")"
	case step == "namespaces" && errors.Is(err, unix.ENOSPC), f.maxUserNamespaces == "0":
		return "user namespace", "allow user namespaces: sysctl -w user.max_user_namespaces=15000 (now " + orUnknown(f.maxUserNamespaces) +
			"; Red Hat hosts may set it to 0), and keep it in /etc/sysctl.d/"
	case step == "namespaces" && (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL)):
		return "user namespace", "use a kernel with user, pid, net, ipc, uts and cgroup namespaces (CONFIG_USER_NS and the others), 5.12 " +
			"or later"
	case denied && !f.root && f.usernsClone == "0":
		return "user namespace", "allow unprivileged user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
	case denied && !f.root && f.appArmorUserns == "1":
		return "user namespace", "Ubuntu restricts unprivileged user namespaces by AppArmor: give the sandpiper binary a profile with " +
			"`userns,` " +
			"(see docs/hosts.md), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case denied && f.filtered:
		return "user namespace", "this process runs under a seccomp filter that blocks unshare or mount, as in a Docker container: " +
			"start the container with --security-opt no-new-privileges --security-opt seccomp=FILE, where FILE is packaging/seccomp.json " +
			"of Sandpiper's sources, or unconfined (and --security-opt apparmor=unconfined with Docker)"
	case step == "namespaces" && denied:
		return "user namespace", "the kernel denied a user namespace, as it does inside chroot(2): use pivot_root or a container " +
			"instead, " +
			"or check for a security module that denies it"
	case step == "setup" && (strings.Contains(err.Error(), "mount_setattr") || strings.Contains(err.Error(), "open_tree")) && !denied:
		return "private root", "use kernel 5.12 or later: mount_setattr is needed to make mounts read-only"
	case step == "setup":
		return "private root", "the private root could not be built (" + err.Error() +
			"); check that the cache and data directories exist and belong to this user"
	case step == "zygote":
		return "interpreter", "the embedded Python did not start (" + err.Error() + "); it needs the host's glibc 2.17 or later"
	}
	return "sandbox", "run `sandpiper doctor` and read the log: " + err.Error()
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Diagnose returns the report of a host on which New failed with err.
func Diagnose(err error) sandbox.Report {
	cause := err
	for {
		next := errors.Unwrap(cause)
		if _, ok := errors.AsType[*setupError](next); !ok {
			break
		}
		cause = next
	}
	layer, remedy := remedyFor(cause)
	return sandbox.Report{Backend: "process", Layers: []sandbox.Layer{
		{Name: layer, State: "failed", Required: true, Detail: cause.Error(), Remedy: remedy},
	}}
}

// number parses s, or returns -1.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
