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

// terminate does nothing: no signal reaches a program without a console.
func (c *Child) terminate() {}

// killAll kills the program and its descendants.
func (c *Child) killAll() {
	if c.watcher.job != 0 {
		_ = windows.TerminateJobObject(c.watcher.job, 1)
	}
	_ = c.cmd.Process.Kill()
}

// watcher is a job object. The system kills its processes when its last handle is
// closed, and therefore when the daemon dies.
type watcher struct{ job windows.Handle }

func startWatcher(_ string, log *slog.Logger) *watcher {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		log.Warn("cannot watch an upstream program; it may outlive a killed daemon", "error", err)
		return &watcher{}
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		log.Warn("cannot watch an upstream program; it may outlive a killed daemon", "error", err)
	}
	return &watcher{job: job}
}

// protect assigns the program to the job.
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
