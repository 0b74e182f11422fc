# Reads paths of Python sources, one a line, relative to the current directory.
# Answers each with the .pyc: its length in four bytes, then its bytes. Nothing
# is written to disk here, so that one program alone knows about files, hashes
# and full disks. argv[1] is where a sandbox will show the current directory.

import importlib.util
import marshal
import sys

# PEP 552: a hash-based .pyc whose source is never looked at again.
HEADER = importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little")

for line in sys.stdin.buffer:
    path = line.decode().rstrip("\n")
    with open(path, "rb") as f:
        source = f.read()
    try:
        code = compile(source, sys.argv[1] + "/" + path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        sys.stdout.buffer.write(bytes(4))  # no length: a template, or for another Python
        continue
    pyc = HEADER + importlib.util.source_hash(source) + marshal.dumps(code)
    sys.stdout.buffer.write(len(pyc).to_bytes(4, "big") + pyc)
sys.stdout.buffer.flush()
