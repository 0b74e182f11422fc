# Reads paths of Python sources, one per line, relative to the current directory.
# Writes for each the .pyc to stdout: its length in four bytes, then its bytes. It
# writes no files, so that only the Go program handles files, hashes and full disks.
# argv[1] is the mount point of the current directory in sandboxes.

import importlib.util
import marshal
import sys

# PEP 552: an unchecked hash-based .pyc; Python does not compare it with its source.
HEADER = importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little")

for line in sys.stdin.buffer:
    path = line.decode().rstrip("\n")
    with open(path, "rb") as f:
        source = f.read()
    try:
        code = compile(source, sys.argv[1] + "/" + path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        sys.stdout.buffer.write(bytes(4))  # length 0: not valid for this Python, such as a template
        continue
    pyc = HEADER + importlib.util.source_hash(source) + marshal.dumps(code)
    sys.stdout.buffer.write(len(pyc).to_bytes(4, "big") + pyc)
sys.stdout.buffer.flush()
