package sandboxtest

const noNetwork = "Code cannot reach a network or a socket of the host."

// network returns attacks that use sockets.
func network() []Case {
	return []Case{
		{Name: "TCP to a server on the host", Promise: noNetwork, Layers: layers("seccomp net landlock"),
			Steps: single(`result = socket.create_connection(("127.0.0.1", host["tcp"]), 3).recv(100).decode()`)},
		{Name: "TCP over IPv6", Promise: noNetwork, Layers: layers("seccomp net landlock"),
			Steps: single(`
if "tcp6" not in host: impossible("the host has no IPv6")
result = socket.create_connection(("::1", host["tcp6"]), 3).recv(100).decode()`)},
		{Name: "TCP to other loopback addresses", Promise: noNetwork, Layers: layers("seccomp net landlock"),
			Steps: single(`
for name in ("0.0.0.0", "127.1.2.3", "::ffff:127.0.0.1"):
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    try:
        s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(3); s.connect((name, host["tcp"])); result = s.recv(100).decode()
    except OSError: pass`)},
		{Name: "UDP to a server on the host", Promise: noNetwork, Layers: layers("seccomp net"),
			Steps: single(`
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
s.sendto(b"hello", ("127.0.0.1", host["udp"])); result = s.recv(100).decode()`)},
		{Name: "DNS", Promise: noNetwork, Layers: layers("seccomp net"),
			Steps: single(`
query = struct.pack(">6H", 7, 256, 1, 0, 0, 0) + b"\x07secrets\x07example\x00" + struct.pack(">HH", 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect(("127.0.0.1", host["udp"]))
s.send(query); result = s.recv(100).decode()`)},
		{Name: "DNS with the C library", Promise: noNetwork, NotShown: "the answer of a host's resolver is not predictable",
			Steps: single(`result = str(socket.getaddrinfo("example.com", 80))`)},
		{Name: "an abstract socket of the host", Promise: noNetwork, Layers: layers("seccomp net landlock"),
			Steps: single(`
s = socket.socket(socket.AF_UNIX); s.connect("\0" + host["abstract"][1:]); result = s.recv(100).decode()`)},
		{Name: "a socket in the host's file system", Promise: noNetwork, Layers: layers("seccomp root"),
			Steps: single(`s = socket.socket(socket.AF_UNIX); s.connect(host["socket"]); result = s.recv(100).decode()`)},
		{Name: "an address on a socket pair, abstract", Promise: noNetwork, Layers: layers("seccomp net landlock"),
			Steps: single(`
s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
result = s.sendto(b"hello", "\0" + host["abstract_dgram"][1:])`)},
		{Name: "an address on a socket pair, by path", Promise: noNetwork, Layers: layers("seccomp root"),
			Steps: single(`
s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
result = s.sendto(b"hello", host["socket_dgram"])`)},
		{Name: "a reconnected socket pair", Promise: noNetwork, Layers: layers("seccomp root"),
			Steps: single(`
s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(host["socket_dgram"]); result = s.send(b"hello")`)},
		{Name: "sockets of every family", Promise: "Code cannot create a socket.", Layers: layers("seccomp"),
			Steps: single(`
made = []
for family in range(64):
    for kind in (1, 2, 3, 5):
        try: fd = kernel("socket", family, kind, 0)
        except OSError: continue
        os.close(fd); made.append((family, kind))
result = made`)},
		{Name: "unix socket", Promise: "Code cannot create a socket.", Layers: layers("seccomp"),
			Steps: single(`result = str(socket.socket(socket.AF_UNIX))`)},
		{Name: "netlink", Promise: "Code cannot query the network configuration.", Layers: layers("seccomp"),
			Steps: single(`s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.bind((0, 0)); result = [i for _, i in ` +
				`socket.if_nameindex()]`)},
		{Name: "vsock", Promise: "Code cannot reach the hypervisor.", Layers: layers("seccomp"),
			Steps: single(`
try: result = str(socket.socket(40, socket.SOCK_STREAM))
except OSError as e:
    if e.errno != errno.EAFNOSUPPORT: raise
    impossible("this kernel has no vsock")`)},
		{Name: "crypto sockets", Promise: "Code cannot create a socket.", Layers: layers("seccomp"),
			Steps: single(`
try: result = str(socket.socket(38, socket.SOCK_SEQPACKET))
except OSError as e:
    if e.errno != errno.EAFNOSUPPORT: raise
    impossible("this kernel has no AF_ALG")`)},
		{Name: "packet and raw sockets", Promise: noNetwork, NotShown: hostCapability,
			Steps: single(`
for family, kind, protocol in ((17, 3, 0x300), (2, 3, 1), (10, 3, 58)):
    try: result = str(socket.socket(family, kind, protocol))
    except OSError: pass`)},
		{Name: "listen", Promise: "Code cannot listen on a network.", Layers: layers("seccomp landlock"),
			Steps: single(`s = socket.socket(); s.bind(("0.0.0.0", 0)); s.listen(); result = str(s.getsockname())`)},
		{Name: "listen on an abstract name", Promise: "Code cannot listen for other sandboxes.", Layers: layers("seccomp"),
			Steps: single(`s = socket.socket(socket.AF_UNIX); s.bind("\0mallory"); s.listen(); result = s.getsockname().decode()`)},
		{Name: "socket pairs of other families", Promise: "Code can create socket pairs of AF_UNIX only.", Layers: layers("seccomp"),
			Steps: single(`
pair = (ctypes.c_int * 2)()
result = [r for f in (2, 10, 16, 30, 17, 40) if (r := reaches("socketpair", f, 1, 0, pair))]`)},
		{Name: "a socket pair with high argument bits", Promise: "The filter compares arguments as the kernel reads them.",
			Layers: layers("seccomp"),
			Steps: single(`
pair = (ctypes.c_int * 2)()
result = reaches("socketpair", 1 << 32 | 16, 3, 0, pair)`)},
		{Name: "out-of-band data", Promise: "Code cannot send out-of-band data.", Layers: layers("seccomp"),
			Steps: single(`
a, b = socket.socketpair()
try: result = a.send(b"x", socket.MSG_OOB)
except OSError as e:
    if e.errno != errno.EOPNOTSUPP: raise
    impossible("this kernel has no out of band bytes on unix sockets")`)},
		{Name: "descriptors in messages", Promise: "Sandboxes cannot pass descriptors to each other or to the daemon.",
			Layers: layers("seccomp"),
			Steps:  single(`a, b = socket.socketpair(); socket.send_fds(a, [b"x"], [0]); result = str(socket.recv_fds(b, 1, 1))`)},
		{Name: "descriptors to the daemon", Promise: "Sandboxes cannot pass descriptors to each other or to the daemon.",
			NotShown: "the daemon does not receive descriptors",
			Steps:    single(`s = socket.socket(fileno=3); socket.send_fds(s, [b"\0\0\0\1O\0\0\0\1x"], [0]); result = "sent"`)},
		{Name: "sockets by io_uring", Promise: noNetwork, Layers: layers("seccomp rlimits"),
			Steps: single(`
try: result = kernel("io_uring_setup", 4, ctypes.create_string_buffer(120))
except OSError as e: impossible(f"this host has no io_uring for users: {e}")`)},
		{Name: "socket options", Promise: "Code cannot set socket options.", Layers: layers("seccomp"),
			Steps: single(`a, b = socket.socketpair(); a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1); result = "set"`)},
		{Name: "connections of the host", Promise: "Code cannot list network connections.", Layers: layers("root"),
			Steps: single(`result = [p for p in ("/proc/net/tcp", "/sys/class/net", "/proc/self/net/unix") if os.path.exists(p)]`)},
	}
}
