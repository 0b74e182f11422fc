package keeper

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A worker of a zygote with preloaded modules is in user, mount and pid namespaces that it created
// without any privilege. The keeper owns the parent namespace, and so may set up the worker's.

// place maps the ids of a worker and mounts its directories and scratch space; fds are its pidfd and its
// directory in the procfs of the daemon. A user namespace is mapped once, so a process in the keeper's
// own, or in that of another worker, is refused before anything is mounted.
func (k *keeper) place(r Request, fds []int) error {
	if len(fds) != 2 {
		return errors.New("placing a worker needs two descriptors")
	}
	trees, err := k.bind(r.Mount)
	defer func() { closeAll(trees) }()
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%d %d 1\n", r.Inside, r.ID)
	for _, name := range []string{"gid_map", "uid_map"} {
		if err := writeAt(fds[1], name, line); err != nil {
			return fmt.Errorf("writing %s of a worker: %w", name, err)
		}
	}
	return inside(fds[0], func() error {
		if err := k.mountScratch(r.TmpBytes); err != nil {
			return err
		}
		for i, m := range r.Mount {
			if err := attach(trees[i], m.Target); err != nil {
				return fmt.Errorf("mounting %s: %w", m.Target, err)
			}
		}
		return nil
	})
}

func writeAt(dir int, name, text string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// inside calls f in the mount namespace of a process, on a thread that ends with it.
func inside(pidfd int, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and no unlock: the runtime ends the thread
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(pidfd, unix.CLONE_NEWNS)
		}
		if err != nil {
			err = fmt.Errorf("entering the mounts of a worker: %w", err)
		} else {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// mountScratch mounts the scratch space of a worker; see mount_scratch in lockdown.py.
func (k *keeper) mountScratch(size int64) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if noExec(k.init) != 0 {
		flags |= unix.MS_NOEXEC
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%d,nr_inodes=20000,mode=1777", size)); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	return nil
}

// attach mounts tree at target without following links, which the tenant may have planted.
func attach(tree int, target string) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	at, err := unix.Openat2(root, strings.TrimLeft(target, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
