package process

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

type zygoteInit struct {
	Disabled     []string `json:"off"`
	Unmount      []string `json:"unmount"`
	UID          int      `json:"uid"`
	TmpBytes     int64    `json:"tmp_bytes"`
	Own          bool     `json:"own_namespaces"`
	FilterFirst  string   `json:"filter_first"`
	FilterSecond string   `json:"filter_second"`
	Packages     string   `json:"packages"` // mount point, or ""
	Preload      []string `json:"preload"`
	Apart        int      `json:"apart"` // flags of the namespaces of a worker; not 0: lock down before the first import
	Landlock     int      `json:"landlock"`
	Programs     []string `json:"programs"` // that code may execute; for apart
}

type zygoteRequest struct {
	ID    uint64      `json:"id"`
	Ahead bool        `json:"ahead"`
	Key   *unshareKey `json:"key,omitempty"`
}

type zygoteAnswer struct {
	Op     string  `json:"op"`   // preloading, failed, ready, settled, forked, refused, exit
	Name   string  `json:"name"` // of a module, for preloading and failed
	Why    string  `json:"why"`  // for failed
	ID     uint64  `json:"id"`
	Status int     `json:"status"` // wait status, for exit; the number of the error, for refused
	CPU    float64 `json:"cpu"`    // seconds, for exit
	RSS    int64   `json:"rss"`    // peak KiB of one process, for exit
}

// zygote is the daemon's side of one zygote.
type zygote struct {
	conn    *net.UnixConn
	pidfd   int
	log     *tail
	born    time.Time
	key     *unshareKey   // not nil: it has preloaded modules; see apart_linux.go
	settled chan struct{} // closed when the zygote is ready to fork in advance
	ended   chan struct{} // closed when the zygote no longer answers

	timeout time.Duration // for the answer to a fork request

	inherited atomic.Pointer[memoryUse] // of a worker that was forked after the zygote had settled

	mu      sync.Mutex
	next    uint64
	forking map[uint64]chan int           // waits for the pidfd, or a negative error number
	exits   map[uint64]chan *zygoteAnswer // buffered; nil or closed means unknown
	forked  int
	closing bool // by close
}

func startZygote(b *Backend) (*zygote, error) {
	init, log := b.zygoteInit(), b.cfg.Log
	var program []byte
	var key *unshareKey
	if len(init.Preload) > 0 && len(b.cfg.Disabled) == 0 {
		p, k := init.confine(b)
		program, key = p, &k
	}
	conn, other, err := packetPair()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		conn.Close()
		other.Close()
		return nil, err
	}
	fds, err := b.keeper.request(keeper.Request{Op: "zygote", Apart: key != nil}, int(other.Fd()), int(w.Fd()))
	other.Close()
	w.Close()
	if err == nil && len(fds) != 1 {
		closeAll(fds)
		err = errors.New("the sandbox keeper returned no zygote")
	}
	if err != nil {
		conn.Close()
		r.Close()
		return nil, err
	}
	z := &zygote{
		conn:    conn,
		pidfd:   fds[0],
		key:     key,
		log:     &tail{},
		born:    time.Now(),
		settled: make(chan struct{}),
		ended:   make(chan struct{}),
		forking: map[uint64]chan int{},
		exits:   map[uint64]chan *zygoteAnswer{},
		timeout: answerTimeout,
	}
	if err := raiseOOMScore(z.pidfd); err != nil {
		log.Warn("raising the OOM score of workers failed", "error", err)
	}
	logged := make(chan struct{})
	go func() { defer close(logged); _, _ = r.WriteTo(z.log); r.Close() }()
	if err := z.begin(init, program, b.cfg.startTimeout, b.cfg.importTimeout); err != nil {
		conn.Close()
		_ = unix.PidfdSendSignal(z.pidfd, unix.SIGKILL, nil, 0) // an import may hang
		unix.Close(z.pidfd)
		<-logged
		if _, left := errors.AsType[*preloadError](err); left {
			return nil, err
		}
		return nil, &setupError{"zygote", fmt.Errorf("%w: %s", err, z.log)}
	}
	go z.listen(log)
	return z, nil
}

// begin waits until the zygote can fork; importTimeout bounds the import of each module, and program is
// the filter of a zygote with a key.
func (z *zygote) begin(init zygoteInit, program []byte, startTimeout, importTimeout time.Duration) error {
	files := z.snapshotFiles()
	if z.key != nil {
		fd, err := pipeOf(program)
		if err != nil {
			closeAll(files)
			return err
		}
		files = append(files, fd) // the last one
	}
	err := send(z.conn, init, files...)
	closeAll(files)
	if err != nil {
		return err
	}
	defer z.conn.SetReadDeadline(time.Time{})
	_ = z.conn.SetReadDeadline(time.Now().Add(startTimeout))
	for module := ""; ; {
		var a zygoteAnswer
		_, err := receive(z.conn, &a)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && module != "":
			return &preloadError{module, fmt.Sprintf("its import took longer than %s", importTimeout)}
		case err != nil && module != "":
			return &preloadError{module, "its import ended the interpreter"}
		case err == nil && a.Op != "failed" && module != "" && leftBy(pidOf(z.pidfd)) != "":
			return &preloadError{module, leftBy(pidOf(z.pidfd))}
		case err != nil:
			return err
		case a.Op == "ready":
			return nil
		case a.Op == "failed":
			return &preloadError{a.Name, a.Why}
		case a.Op != "preloading":
			return errors.New("unexpected answer " + a.Op)
		}
		module = a.Name
		if z.key != nil {
			_, _ = z.conn.Write([]byte{0}) // the zygote waits before the import
		}
		_ = z.conn.SetReadDeadline(time.Now().Add(importTimeout))
	}
}

// snapshotFiles opens the files with which a zygote makes a snapshot: its mappings, and
// a file for the memory. There are none where it cannot, or this process may not read
// the mappings.
func (z *zygote) snapshotFiles() []int {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	maps, err := unix.Open(fmt.Sprintf("/proc/%d/maps", pidOf(z.pidfd)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	memory, err := unix.MemfdCreate("zygote", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		unix.Close(maps)
		return nil
	}
	return []int{maps, memory}
}

// preloadError is a failed import of a module of Config.Preload.
type preloadError struct{ module, why string }

func (e *preloadError) Error() string { return "preloading " + e.module + ": " + e.why }

// listen delivers each answer to its waiter.
func (z *zygote) listen(log *slog.Logger) {
	defer z.fail()
	for {
		var a zygoteAnswer
		fds, err := receive(z.conn, &a)
		if err != nil && !errors.Is(err, errShortage) {
			level := slog.LevelWarn // an import after the start may have failed, and would fail in the next one too
			if z.isClosing() {
				level = slog.LevelDebug
			}
			log.Log(context.Background(), level, "a zygote ended", "error", err, "stderr", z.log.String())
			return
		}
		z.deliver(a, fds)
	}
}

func (z *zygote) deliver(a zygoteAnswer, fds []int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch a.Op {
	case "settled":
		close(z.settled)
	case "forked":
		if ch := z.forking[a.ID]; ch != nil {
			delete(z.forking, a.ID)
			if len(fds) == 1 {
				ch <- fds[0]
				return
			}
			ch <- -int(unix.EMFILE) // the worker ends with its channel
		}
	case "refused":
		if ch := z.forking[a.ID]; ch != nil {
			delete(z.forking, a.ID)
			delete(z.exits, a.ID)
			ch <- -a.Status
		}
	case "exit":
		if ch := z.exits[a.ID]; ch != nil {
			delete(z.exits, a.ID)
			ch <- &a
		}
	}
	closeAll(fds)
}

// fail ends all waits for answers.
func (z *zygote) fail() {
	z.mu.Lock()
	defer z.mu.Unlock()
	close(z.ended)
	for _, ch := range z.forking {
		close(ch)
	}
	for _, ch := range z.exits {
		close(ch)
	}
	z.forking, z.exits = nil, nil
}

// expired reports whether the zygote has reached its maximum age or number of forks.
func (z *zygote) expired(age time.Duration, forks int) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return time.Since(z.born) >= age || z.forked >= forks
}

// awaitSettled waits until the zygote has settled or ended.
func (z *zygote) awaitSettled() {
	select {
	case <-z.settled:
	case <-z.ended:
	}
}

func (z *zygote) isSettled() bool {
	select {
	case <-z.settled:
		return true
	default:
		return false
	}
}

func (z *zygote) dead() bool {
	select {
	case <-z.ended:
		return true
	default:
		return false
	}
}

// fork starts a worker with fds and returns its pidfd and the channel for its exit
// status.
func (z *zygote) fork(fds []int, ahead bool) (pidfd int, exit <-chan *zygoteAnswer, err error) {
	forked, ended := make(chan int, 1), make(chan *zygoteAnswer, 1)
	z.mu.Lock()
	if z.forking == nil {
		z.mu.Unlock()
		return -1, nil, errZygoteGone
	}
	z.next++
	id := z.next
	z.forking[id], z.exits[id] = forked, ended
	z.forked++
	timeout := z.timeout
	_ = z.conn.SetWriteDeadline(time.Now().Add(timeout))
	err = send(z.conn, zygoteRequest{ID: id, Ahead: ahead, Key: z.key}, fds...)
	z.mu.Unlock()
	if err != nil {
		z.kill()
		<-z.ended
		return -1, nil, errZygoteGone
	}
	late := time.AfterFunc(timeout, z.kill) // then fail closes forked
	defer late.Stop()
	pidfd, ok := <-forked
	if !ok {
		return -1, nil, errZygoteGone
	}
	switch errno := unix.Errno(-pidfd); {
	case pidfd >= 0:
		return pidfd, ended, nil
	case errno == unix.EMFILE:
		return -1, nil, errShortage
	default:
		return -1, nil, &fs.PathError{Op: "fork/exec", Path: keeper.Python, Err: errno}
	}
}

// answerTimeout bounds the wait for a zygote or the keeper. A fork takes two
// milliseconds, so a process that exceeds it is stopped or hangs.
const answerTimeout = 5 * time.Second

// kill kills a zygote and closes its connection, which ends all waits for it.
func (z *zygote) kill() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.pidfd >= 0 {
		_ = unix.PidfdSendSignal(z.pidfd, unix.SIGKILL, nil, 0)
	}
	z.conn.Close()
}

func (z *zygote) isClosing() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.closing
}

var errZygoteGone = errors.New("the zygote has ended")

// close ends the zygote; its workers continue. It is killed, and they become children of the keeper. In a
// pid namespace of its own it ends by itself, after its workers, which would be killed with it.
func (z *zygote) close() {
	z.mu.Lock()
	z.closing = true
	z.mu.Unlock()
	if z.key == nil {
		z.kill()
	} else {
		z.conn.Close()
	}
	<-z.ended
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.pidfd >= 0 {
		unix.Close(z.pidfd)
		z.pidfd = -1
	}
}

func encode(program []byte) string { return base64.StdEncoding.EncodeToString(program) }
