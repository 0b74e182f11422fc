package process

import (
	"log/slog"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

func procAttrs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// ask does nothing: there is no signal that a program without a console gets.
func (c *Child) terminate() {}

// sweep ends the program and all that it started.
func (c *Child) killAll() {
	if c.watcher.job != 0 {
		_ = windows.TerminateJobObject(c.watcher.job, 1)
	}
	_ = c.cmd.Process.Kill()
}

// watcher is a job: the system ends all processes in it when its last handle is
// closed, and so when the daemon dies.
type watcher struct{ job windows.Handle }

func startWatcher(_ string, log *slog.Logger) *watcher {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		log.Warn("no watcher for an upstream server", "error", err)
		return &watcher{}
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		log.Warn("no watcher for an upstream server", "error", err)
	}
	return &watcher{job: job}
}

// guard puts the program in the job.
func (w *watcher) protect(p *os.Process) {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil || w.job == 0 {
		return
	}
	defer windows.CloseHandle(h)
	_ = windows.AssignProcessToJobObject(w.job, h)
}

func (w *watcher) stop() {
	if w.job != 0 {
		_ = windows.CloseHandle(w.job)
	}
}
