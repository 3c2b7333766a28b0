"""Work beside other work, where a second core is free."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from signal import SIGKILL
from typing import Any, TypeVar

T = TypeVar("T")
#: Libraries with threads of their own, of which a copy of the process would have none.
THREADED = ("torch", "cupy", "jax", "tensorflow")
#: Whether other processes of this program have the other cores.
_one_of_many = False


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[None]:
    """Does work in a thread beside the block, for its effects: what goes wrong in it is left to whoever asks
    for them."""

    def run() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def one_of_many() -> None:
    """Says that other processes of this program have the other cores: this one makes no copies."""
    global _one_of_many
    _one_of_many = True


def may_fork() -> bool:
    """Whether a copy of this process does no harm, and has a core to run on."""
    if _one_of_many or not hasattr(os, "fork") or not hasattr(os, "sched_getaffinity"):
        return False
    alone = threading.active_count() == 1 and not any(name in sys.modules for name in THREADED)
    return alone and len(os.sched_getaffinity(0)) > 1 and not _holds_gpu()


def _holds_gpu() -> bool:
    """Whether this process has opened a GPU, which a copy of it must not touch."""
    try:
        files = os.listdir("/proc/self/fd")
    except OSError:
        return True  # nothing says that it has not
    return any(_target(f"/proc/self/fd/{f}").startswith("/dev/nvidia") for f in files)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # it was closed meanwhile


@contextmanager
def apart(work: Callable[[], T]) -> Iterator[Callable[[], T | None] | None]:
    """Does work in a copy of this process beside the block, which gets a function that waits for the result;
    that gives None where something went wrong, and all is None where there is no copy."""
    if not may_fork():
        yield None
        return
    read, write = os.pipe()
    try:
        copy = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        yield None
        return
    if not copy:
        _answer(work, read, write)
    os.close(write)
    source = os.fdopen(read, "rb")
    try:
        yield lambda: _heard(source)
    finally:
        source.close()
        with suppress(ProcessLookupError):
            os.kill(copy, SIGKILL)
        os.waitpid(copy, 0)


def _answer(work: Callable[[], object], read: int, write: int) -> None:
    """What the copy does: it says what the work gave, or nothing, and ends at once."""
    one_of_many()
    try:
        os.close(read)
        answer = pickle.dumps(work())
        with os.fdopen(write, "wb") as out:
            out.write(answer)
    finally:
        os._exit(0)  # whatever happened: nothing of the caller runs twice


def _heard(source: Any) -> Any:
    """What the copy said; None if it said nothing whole."""
    try:
        return pickle.loads(source.read())
    except (pickle.UnpicklingError, EOFError, OSError, AttributeError):
        return None


__all__ = ["apart", "in_background", "may_fork", "one_of_many"]
