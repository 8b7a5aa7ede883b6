"""The second wall of a rerun: the kernel refuses what no line of Python asked for, such as a C library's connection.

A seccomp filter on this process and all of its threads, for good: no connections and no sockets but within the process,
no new process, no signal to another. Linux on x86-64 and ARM64; elsewhere the first wall stands alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

Instruction = tuple[int, int, int, int]
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_OTHER_NUMBERS = 0x40000000
"""From here on x86-64 has the same calls once more (x32)."""
_CLONE_THREAD = 0x00010000
_NO_NEW_PRIVILEGES, _SET_FILTER, _ALL_THREADS = 38, 1, 1


@dataclass(frozen=True, slots=True)
class _Calls:
    """Numbers of system calls on one kind of machine."""

    architecture: int
    seccomp: int
    socket: int
    network: tuple[int, ...]
    clone: int
    clone3: int
    tgkill: int
    never: tuple[int, ...]


_KINDS = {
    "x86_64": _Calls(
        architecture=0xC000003E,
        seccomp=317,
        socket=41,
        network=(42, 49, 50),  # connect, bind, listen
        clone=56,
        clone3=435,
        tgkill=234,
        # fork, vfork, execve, kill, ptrace, rt_sigqueueinfo, tkill, rt_tgsigqueueinfo, execveat, process_vm_writev,
        # pidfd_send_signal, io_uring_setup
        never=(57, 58, 59, 62, 101, 129, 200, 297, 322, 311, 424, 425),
    ),
    "aarch64": _Calls(
        architecture=0xC00000B7,
        seccomp=277,
        socket=198,
        network=(203, 200, 201),
        clone=220,
        clone3=435,
        tgkill=131,
        # execve, kill, tkill, ptrace, rt_sigqueueinfo, rt_tgsigqueueinfo, execveat, process_vm_writev,
        # pidfd_send_signal, io_uring_setup
        never=(221, 129, 130, 117, 138, 240, 281, 271, 424, 425),
    ),
}


def close(*, network: bool) -> bool:
    """Close everything, the network too if asked. Whether this kernel does it. Cannot be undone."""
    calls = _KINDS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return False
    program = list(_program(calls, network))
    library = ctypes.CDLL(None, use_errno=True)
    lines = (_Line * len(program))(*(_Line(*line) for line in program))
    whole = _Program(len(program), lines)
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return bool(library.syscall(calls.seccomp, _SET_FILTER, _ALL_THREADS, ctypes.byref(whole)) == 0)


def _program(calls: _Calls, network: bool) -> Iterator[Instruction]:
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    again = (_LOAD, 0, 0, _NUMBER_AT)
    yield (_LOAD, 0, 0, _ARCHITECTURE_AT)
    yield (_EQUAL, 1, 0, calls.architecture)
    yield (_RETURN, 0, 0, _KILL)
    yield again
    yield (_AT_LEAST, 0, 1, _OTHER_NUMBERS)
    yield refuse
    for number in (*calls.never, *(calls.network if network else ())):
        yield (_EQUAL, 0, 1, number)
        yield refuse
    # Threads are wanted, processes are not; the C library asks the old way when it is told that there is no new one.
    yield (_EQUAL, 0, 1, calls.clone3)
    yield (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    yield (_EQUAL, 0, 4, calls.clone)
    yield (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
    yield (_ANY_BIT, 1, 0, _CLONE_THREAD)
    yield refuse
    yield again
    # What a C library's abort() and the end of a thread need: a signal to itself.
    yield (_EQUAL, 0, 4, calls.tgkill)
    yield (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
    yield (_EQUAL, 1, 0, os.getpid())
    yield refuse
    yield again
    if network:
        yield (_EQUAL, 0, 4, calls.socket)
        yield (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
        yield (_EQUAL, 1, 0, int(socket.AF_UNIX))
        yield refuse
        yield again
    yield (_RETURN, 0, 0, _ALLOW)


class _Line(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("operand", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.POINTER(_Line))]
