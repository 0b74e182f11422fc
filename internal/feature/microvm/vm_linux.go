//go:build amd64

package microvm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/microvm/launcher"
)

// vm is one guest and its processes.
type vm struct {
	qemu    *child
	sharing *child // virtiofsd; nil in a guest without mounts
	monitor *qmp
	control *os.File // sockets of its virtio-serial ports
	channel *os.File
	stdout  *os.File
	stderr  *os.File
	shared  *os.File          // socket to the launcher of virtiofsd
	answers chan guestMessage // closed when the guest has ended
	step    time.Duration     // bounds a step that takes milliseconds on an idle machine
}

// guestMessage is a line of JSON from guest.py, or from code that controls the guest.
type guestMessage struct {
	Op     string            `json:"op"`    // ready, failed, usage, closed, exit
	Unfit  map[string]string `json:"unfit"` // for ready: modules that cannot be imported
	Error  string            `json:"error"`
	Status int               `json:"status"` // wait status, for exit
	CPU    float64           `json:"cpu"`    // seconds
	Memory int64             `json:"memory"` // peak of all processes together
	Killed bool              `json:"killed"` // because of the memory limit
}

// maxGuestMessage bounds a line, and maxAnswers the number of unread lines.
const (
	maxGuestMessage = 64 << 10
	maxAnswers      = 16
)

// start has the parameters of startVM.
type start struct {
	memory   *os.File
	snapshot *os.File // nil to boot
	uid      int      // of the exports
	exports  []launcher.Export
}

// startVM starts a guest. The caller closes it.
func (b *Backend) startVM(s start) (*vm, error) {
	v := &vm{answers: make(chan guestMessage, maxAnswers), step: b.cfg.stepTimeout}
	err := b.startProcesses(v, s)
	if err == nil {
		err = v.begin(s.snapshot != nil)
	}
	if err != nil {
		v.close()
		return nil, v.explain(err)
	}
	return v, nil
}

// startProcesses starts the processes of v, which then have the other ends of its sockets.
func (b *Backend) startProcesses(v *vm, s start) (err error) {
	var monitor *os.File
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	for _, ours := range []**os.File{&monitor, &v.control, &v.channel, &v.stdout, &v.stderr} {
		var other *os.File
		if *ours, other, err = socketPair(); err != nil {
			return err
		}
		theirs = append(theirs, other)
	}
	v.monitor = newQMP(monitor)
	for _, f := range []*os.File{s.memory, b.kernelFile, b.initramfs, s.snapshot} {
		if f == nil {
			continue
		}
		again, err := reopen(f)
		if err != nil {
			return err
		}
		theirs = append(theirs, again)
	}
	if s.snapshot != nil {
		if v.sharing, v.shared, err = b.share(s); err != nil {
			return err
		}
	}
	if v.qemu, err = b.starter.start(b.qemuConfig(s.snapshot != nil), theirs...); err != nil {
		return err
	}
	go v.listen()
	return nil
}

// begin lets QEMU boot the guest, or restore it from the snapshot.
func (v *vm) begin(restored bool) error {
	if err := v.monitor.do(v.soon(), nil, "qmp_capabilities", nil); err != nil {
		return err
	}
	memory := []any{map[string]any{"capability": "x-ignore-shared", "state": true}}
	if err := v.monitor.do(v.soon(), nil, "migrate-set-capabilities", map[string]any{"capabilities": memory}); err != nil || !restored {
		return err
	}
	return v.monitor.do(v.soon(), nil, "migrate-incoming", map[string]any{"uri": "fd:" + strconv.Itoa(fdSnapshot)})
}

// The descriptors of QEMU, in the order of startVM.
const (
	fdMonitor = launcher.ConfigFD + 1 + iota
	fdControl
	fdChannel
	fdStdout
	fdStderr
	fdMemory
	fdKernel
	fdInitramfs
	fdSnapshot
)

// qemuConfig returns the command line of QEMU. A restored guest must have the devices of the
// booted one.
func (b *Backend) qemuConfig(restored bool) launcher.Config {
	size := strconv.FormatInt(b.memorySize>>20, 10) + "M"
	processor := "host"
	if b.cfg.Accel == TCG {
		processor = "max"
	}
	args := []string{
		b.qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-machine", "pc,memory-backend=ram,accel=" + b.cfg.Accel, "-cpu", processor, "-smp", "1", "-m", size,
		"-object", "memory-backend-file,id=ram,share=on,size=" + size + ",mem-path=" + fdPath(fdMemory),
		"-kernel", fdPath(fdKernel), "-initrd", fdPath(fdInitramfs),
		// init_on_free leaves zeros in memory that was freed until the snapshot, which need not be kept.
		"-append", "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check init_on_free=1 cgroup_no_v1=all PYTHONHASHSEED=0 " +
			"PYTHON_COLORS=0",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", socket("monitor", fdMonitor), "-mon", "chardev=monitor,mode=control",
		"-device", "virtio-serial-pci,disable-legacy=on",
	}
	for i, name := range []string{"control", "channel", "stdout", "stderr"} {
		args = append(args, "-chardev", socket(name, fdControl+i), "-device", "virtserialport,chardev="+name+",name="+name)
	}
	if restored {
		args = append(args, "-incoming", "defer")
	}
	c := launcher.Config{Args: args, UID: b.nobody, OpenFiles: 1024}
	if b.cfg.Accel == KVM {
		c.Devices, c.Groups, c.Caps = []string{b.cfg.kvm}, b.kvmGroup, b.kvmCaps
	}
	return c
}

func socket(name string, fd int) string { return fmt.Sprintf("socket,id=%s,fd=%d", name, fd) }

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// reopen opens a file again, with a position of its own.
func reopen(f *os.File) (*os.File, error) { return os.Open(fdPath(int(f.Fd()))) }

// socketPair returns our end, which the runtime polls, and the other end.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	_ = unix.SetNonblock(pair[0], true)
	return os.NewFile(uintptr(pair[0]), "guest"), os.NewFile(uintptr(pair[1]), "guest"), nil
}

// listen receives the messages of the guest.
func (v *vm) listen() {
	defer close(v.answers)
	in := bufio.NewScanner(v.control)
	in.Buffer(nil, maxGuestMessage)
	for in.Scan() {
		var m guestMessage
		if json.Unmarshal(in.Bytes(), &m) != nil {
			return
		}
		select {
		case v.answers <- m:
		default:
			return // it sends unrequested messages
		}
	}
}

var errGuestEnded = errors.New("the guest ended")

// answer waits for a message with the operation op.
func (v *vm) answer(deadline time.Time, op string) (guestMessage, error) {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	for {
		select {
		case m, ok := <-v.answers:
			switch {
			case !ok:
				return m, v.explain(errGuestEnded)
			case m.Op == op:
				return m, nil
			case m.Op == "failed":
				return m, fmt.Errorf("the guest reports: %s", m.Error)
			}
		case <-v.qemu.done:
			return guestMessage{}, v.explain(errGuestEnded)
		case <-late.C:
			return guestMessage{}, v.explain(os.ErrDeadlineExceeded)
		}
	}
}

// explain adds the last output of the guest's processes to an error.
func (v *vm) explain(err error) error {
	for _, p := range []*child{v.qemu, v.sharing} {
		if p == nil {
			continue
		}
		if text := p.log.String(); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
	}
	return err
}

// tell sends a request to guest.py.
func (v *vm) tell(request any) error {
	_ = v.control.SetWriteDeadline(v.soon())
	return json.NewEncoder(v.control).Encode(request)
}

// soon is the deadline of the next step.
func (v *vm) soon() time.Time { return time.Now().Add(v.step) }

// kill ends the guest without waiting.
func (v *vm) kill() {
	for _, p := range []*child{v.qemu, v.sharing} {
		if p != nil {
			_ = p.cmd.Process.Kill()
		}
	}
}

// close ends the guest and waits for its processes. It is idempotent.
func (v *vm) close() {
	v.qemu.kill()
	v.sharing.kill()
	for _, f := range []*os.File{v.control, v.channel, v.stdout, v.stderr, v.shared} {
		if f != nil {
			f.Close()
		}
	}
	if v.monitor != nil {
		v.monitor.f.Close()
	}
}
