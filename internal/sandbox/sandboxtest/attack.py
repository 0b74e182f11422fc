# Prelude of the code of every case. It defines
#   host    facts about the host that the attacker may know: paths, ports, names
#   results the results of earlier steps, by actor
#   kernel  a system call by name; raises OSError
#   reaches the error of the kernel's implementation of a system call, or "" if a filter refused it
#   child   runs a function in a forked process and returns its result
#   scan    counts a secret, given backwards, in this process's memory
# A successful attack sets `result`. A stopped one does not, or raises an OSError or a MemoryError.
# An attack that is impossible on this machine, with or without a sandbox, raises Impossible.
import ctypes, errno, os, signal, socket, struct, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_arm = os.uname().machine == "aarch64"
_AT_FDCWD = -100


class Impossible(Exception):
    pass


def impossible(why):
    raise Impossible(why)


_NUMBERS = dict(
    acct=(163, 89), add_key=(248, 217), adjtimex=(159, 171), bpf=(321, 280), cachestat=(451, 451), capget=(125, 90),
    chroot=(161, 51), clock_adjtime=(305, 266), clock_settime=(227, 112), clone=(56, 220), clone3=(435, 435),
    delete_module=(176, 106), execveat=(322, 281), exit=(60, 93), fallocate=(285, 47), fanotify_init=(300, 262), fchmodat2=(452, 452),
    fcntl=(72, 25), finit_module=(313, 273), fsopen=(430, 430), getpid=(39, 172), getsockopt=(55, 209),
    init_module=(175, 105), inotify_add_watch=(254, 27), inotify_init1=(294, 26), io_setup=(206, 0),
    io_uring_register=(427, 427), io_uring_setup=(425, 425), ioctl=(16, 29), ioprio_set=(251, 30), kcmp=(312, 272),
    kexec_load=(246, 104), keyctl=(250, 219), madvise=(28, 233), mbind=(237, 235), memfd_create=(319, 279),
    memfd_secret=(447, 447), migrate_pages=(256, 238), mincore=(27, 232), mknodat=(259, 33), mlock=(149, 228),
    modify_ldt=(154, None), mount=(165, 40), mount_setattr=(442, 442), move_mount=(429, 429), move_pages=(279, 239),
    mq_open=(240, 180), mq_unlink=(241, 181), msgget=(68, 186), name_to_handle_at=(303, 264), open_tree=(428, 428),
    perf_event_open=(298, 241), personality=(135, 92), pidfd_getfd=(438, 438), pidfd_open=(434, 434),
    pidfd_send_signal=(424, 424), pivot_root=(155, 41), prctl=(157, 167), preadv2=(327, 286), prlimit64=(302, 261),
    process_madvise=(440, 440), process_vm_readv=(310, 270), process_vm_writev=(311, 271), ptrace=(101, 117),
    quotactl=(179, 60), reboot=(169, 142), renameat2=(316, 276), request_key=(249, 218), sched_setscheduler=(144, 119),
    seccomp=(317, 277), semget=(64, 190), sendto=(44, 206), set_mempolicy=(238, 237), sethostname=(170, 161),
    setns=(308, 268), setresuid=(117, 147), settimeofday=(164, 170), setxattr=(188, 5), socket=(41, 198), socketpair=(53, 199), shmat=(30, 196), shmget=(29, 194),
    splice=(275, 76), swapoff=(168, 225), swapon=(167, 224), sync=(162, 81), syncfs=(306, 267), sysfs=(139, None),
    syslog=(103, 116), tee=(276, 77), umount2=(166, 39), unshare=(272, 97), userfaultfd=(323, 282), vhangup=(153, 58),
    vmsplice=(278, 75),
)


def kernel(name, *args):
    number = _NUMBERS[name][_arm]
    if number is None:
        raise Impossible(f"{name} is not a system call of this architecture")
    r = _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r == -1:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e), name)
    return r


def pidfd(pid):
    return kernel("pidfd_open", pid, 0)


def reaches(name, *args):
    try:
        kernel(name, *args)
    except OSError as e:
        if e.errno in (errno.EPERM, errno.ENOSYS):
            return ""
        return f"{name}: {errno.errorcode[e.errno]}"
    return f"{name}: succeeded"


def child(f):
    """Return the result of f in a forked child, or its exception."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = f()
            os.write(w, ("+" + str(answer) if answer else "-").encode())
        except BaseException as e:
            os.write(w, f"{'?' if isinstance(e, Impossible) else '-'}{type(e).__name__}: {e}".encode())
        finally:
            os._exit(0)
    os.close(w)
    answer = os.read(r, 4096).decode()
    _, status = os.waitpid(pid, 0)
    os.close(r)
    if not answer and not os.WIFSIGNALED(status):
        raise RuntimeError(f"the child ended with {status:#x} and results nothing")
    if answer.startswith("?"):
        raise Impossible(answer[1:])
    return answer[1:] if answer.startswith("+") else ""


def tmp(name="file", data=b"x"):
    """Return a descriptor of a new file in /tmp."""
    fd = os.open(f"/tmp/{name}.{os.getpid()}.{time.monotonic_ns()}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, data)
    return fd


def scan(backwards, reach=48 << 20, step=1 << 16):
    """Count a secret in the memory near everything whose address is known.

    Writing a missing page to a pipe returns EFAULT, which finds the pages that exist. The
    needle lacks the last byte of the secret, so that the scan does not find it.
    """
    secret = backwards[::-1].encode()
    needle, last = secret[:-1], secret[-1]
    del secret
    r, w = os.pipe()
    os.set_blocking(w, False)
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    known = [id(object()), id(sys), id([0] * 100_000), ctypes.addressof(ctypes.c_char()), libc.sbrk(0) - 4096]
    known.append(ctypes.cast(libc.printf, ctypes.c_void_p).value)
    seen, found = set(), 0
    for base in known:
        for direction in (1, -1):
            at, missing = base // step * step, 0
            while abs(at - base) < reach and missing < 64:
                if at not in seen:
                    seen.add(at)
                    data = b""
                    for page in range(at, at + step, 4096):
                        if libc.write(w, ctypes.c_void_p(page), 4096) == 4096:
                            data += os.read(r, 4096)
                    missing = 0 if data else missing + 1
                    where = data.find(needle)
                    while where >= 0:
                        found += data[where + len(needle) : where + len(needle) + 1] == bytes([last])
                        where = data.find(needle, where + 1)
                at += direction * step
    os.close(r), os.close(w)
    return found
