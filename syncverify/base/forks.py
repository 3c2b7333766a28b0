"""Processes that are copies of one process, which has imported once what each of them needs.

Imports of the checker take two seconds of processor time. Example: twelve processes that prove wait for one
import, and not for twelve beside each other on the cores of the caller.

``Forks`` is the caller's side; ``serve`` is what the process does that is copied. Both are joined by a
socket, which the process has as its standard input. Each copy gets a socket of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

#: The number of a copy: the one that has it ends, and where a socket comes with it, another one begins.
_NUMBER = struct.Struct("<Q")


@dataclass
class Forks:
    """Copies of the process that ``command`` begins, by numbers of the caller's. It begins when the first
    is asked for, and again where it has died; all end with the caller."""

    command: Sequence[str]
    environment: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _control: socket.socket | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def begin(self, number: int) -> socket.socket:
        """The socket of a new copy, which may still have to come; one that had the number ends."""
        own, other = socket.socketpair()
        with other, self._lock:
            try:
                socket.send_fds(self._running(), [_NUMBER.pack(number)], [other.fileno()])
            except OSError:
                own.close()
                raise
        return own

    def end(self, number: int) -> None:
        """Ends a copy, whatever it does."""
        with self._lock, contextlib.suppress(OSError):
            if self._control is not None:
                self._control.sendall(_NUMBER.pack(number))

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            control, self._control = self._control, None
            if control is not None:
                with contextlib.suppress(OSError):
                    control.shutdown(socket.SHUT_RDWR)
                control.close()

    def _running(self) -> socket.socket:
        """The socket of the process that is copied."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        if self._control is None:
            atexit.register(self.close)
        else:
            self._control.close()
        own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                self.command, stdin=other.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=dict(self.environment),
            )  # fmt: skip
        self._control = own
        return own


def can_fork() -> bool:
    """Whether processes can be copied here."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def serve(work: Callable[[socket.socket], object]) -> None:
    """Copies this process for each socket that comes on its standard input, until that ends."""
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    gc.freeze()  # what is here by now is searched by no copy
    copies: dict[int, int] = {}
    while True:
        message, files, *_ = socket.recv_fds(control, _NUMBER.size, 1)
        _forget_ended(copies)
        if len(message) < _NUMBER.size:
            break
        (number,) = _NUMBER.unpack(message)
        _kill(copies, number)
        for file in files:
            copies[number] = _copy(work, control, file)
    for number in tuple(copies):
        _kill(copies, number)


def _copy(work: Callable[[socket.socket], object], control: socket.socket, file: int) -> int:
    """The number of a process that works for a socket."""
    copy = os.fork()
    if not copy:
        try:
            control.close()
            with socket.socket(fileno=file) as own:
                work(own)
        finally:
            os._exit(0)  # whatever happened: nothing of the process that is copied runs twice
    os.close(file)
    return copy


def _forget_ended(copies: dict[int, int]) -> None:
    for number, copy in tuple(copies.items()):
        if os.waitpid(copy, os.WNOHANG)[0]:
            del copies[number]


def _kill(copies: dict[int, int], number: int) -> None:
    copy = copies.pop(number, None)
    if copy is not None:
        os.kill(copy, signal.SIGKILL)  # nobody has waited for it, so the number is still its own
        os.waitpid(copy, 0)


__all__ = ["Forks", "can_fork", "serve"]
