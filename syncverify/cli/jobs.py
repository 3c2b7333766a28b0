"""Work in several processes; one that dies takes no more than the item it was at along."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from syncverify.base.workers import one_of_many

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int,
    lost: Callable[[Item, int | None], Result],
) -> Iterator[Result]:
    """The result for each item, in the items' order, ``jobs`` of them at a time.

    ``lost`` makes the result for an item whose process ended without one, of the item and the exit code.
    """
    busy: dict[Connection, tuple[int, BaseProcess]] = {}
    results: dict[int, Result] = {}
    begun = given = 0
    try:
        while given < len(items):
            while begun < len(items) and len(busy) < jobs:
                connection, process = _start(work)
                connection.send(items[begun])
                busy[connection] = begun, process
                begun += 1
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                i, process = busy.pop(ready)
                try:
                    results[i] = ready.recv()
                except (EOFError, ConnectionResetError):
                    process.join()
                    results[i] = lost(items[i], process.exitcode)
                    continue
                if begun < len(items):
                    ready.send(items[begun])
                    busy[ready] = begun, process
                    begun += 1
                else:
                    process.terminate()
            while given in results:
                yield results.pop(given)
                given += 1
    finally:
        for _, process in busy.values():
            process.terminate()


def _start(work: Callable[[Item], Any]) -> tuple[Connection, BaseProcess]:
    context: Any = get_context("fork" if sys.platform == "linux" else "spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, work), daemon=True)
    process.start()
    there.close()
    return here, process


def _serve(there: Connection, work: Callable[[Item], Any]) -> None:
    one_of_many()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        there.send(work(there.recv()))


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
