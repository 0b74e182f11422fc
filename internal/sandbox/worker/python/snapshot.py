"""Moves the zygote's memory to a file that workers map.

A fork copies the page table entries of memory that belongs to no file, and the exit of
the worker frees them. The entries of a file are made when a page is used. A write copies
the page, as before: the mapping is private, and the file is sealed.
"""

import array
import os

from .kernel import call, errno_location, function, memory, uint64

# long snapshot(const uint64_t (*ranges)[3], long count, long fd)
#
# Writes each range (start, length, offset in the file) to fd, then maps the file there.
# Python cannot do this: it would change its memory between the two. The code uses
# registers and the stack only. It returns 0, or the result of the failed system call.
_AMD64 = bytes.fromhex("".join((
    "53 55 4154 4155 4156",        # push  rbx, rbp, r12, r13, r14
    "4989fc 4989f5 4989d6",        # mov   r12, rdi; r13, rsi; r14, rdx
    "4c89e3 4c89ed",               # mov   rbx, r12; rbp, r13
    "b812000000 4c89f7",           # 1: mov eax, pwrite64; rdi, r14
    "488b33 488b5308 4c8b5310",    # mov   rsi, [rbx]; rdx, [rbx+8]; r10, [rbx+16]
    "0f05 483b4308 753f",          # syscall; cmp rax, [rbx+8]; jne 3f
    "4883c318 48ffcd 75dc",        # add   rbx, 24; dec rbp; jnz 1b
    "4c89e3 4c89ed",               # mov   rbx, r12; rbp, r13
    "b809000000 488b3b 488b7308",  # 2: mov eax, mmap; rdi, [rbx]; rsi, [rbx+8]
    "ba03000000 41ba12000000",     # mov   edx, READ|WRITE; r10d, PRIVATE|FIXED
    "4d89f0 4c8b4b10",             # mov   r8, r14; r9, [rbx+16]
    "0f05 483b03 750b",            # syscall; cmp rax, [rbx]; jne 3f
    "4883c318 48ffcd 75d2",        # add   rbx, 24; dec rbp; jnz 2b
    "31c0",                        # xor   eax, eax
    "415e 415d 415c 5d 5b c3",     # 3: pop r14, r13, r12, rbp, rbx; ret
)).replace(" ", ""))
_PAGE, _LEAST = 4096, 1 << 16
_READ, _WRITE, _EXEC, _PRIVATE_ANONYMOUS = 1, 2, 4, 0x22
_ADD_SEALS, _ALL_SEALS = 1033, 0xF


def take(maps, file):
    """Map file in the place of all writable memory; maps is the text of /proc/PID/maps of this process.

    Return False, and change nothing, if there is no memory for the file.
    """
    ranges, size = array.array("Q"), 0
    for start, end in _writable(maps):
        ranges.extend((start, end - start, size))
        size += end - start
    at = call("mmap", None, uint64(_PAGE), _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    try:
        memory(at, len(_AMD64))[:] = _AMD64
        call("mprotect", uint64(at), uint64(_PAGE), _READ | _EXEC)
        failed = function(at)(uint64(ranges.buffer_info()[0]), uint64(len(ranges) // 3), uint64(file))
    finally:
        call("munmap", uint64(at), uint64(_PAGE))
    if not failed:
        call("fcntl", file, _ADD_SEALS, _ALL_SEALS)
    return not failed


def _writable(maps):
    """Yield the writable mappings, without stacks and without that of the thread's data, which the kernel writes to."""
    own = errno_location()
    for line in maps.splitlines():
        where, protection, *rest = line.split()
        start, end = (int(x, 16) for x in where.split("-"))
        if protection == "rw-p" and end - start >= _LEAST and not start <= own < end and rest[-1] != "[stack]":
            yield start, end
