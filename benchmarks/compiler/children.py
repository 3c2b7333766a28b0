"""Cases of a benchmark in child processes: killed when they stall, started again behind where they were.

It prints {"begins": NAME} when it begins a case, and {"case": NAME, ...} for each result, as lines of JSON.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from typing import Any

Command = Callable[[Sequence[str]], list[str]]


def supervised(
    command: Command, shares: Sequence[Sequence[str]], until: float, patience: float, workers: int = 1
) -> list[dict[str, Any]]:
    """The results of all cases; each share is a child's, so many children at once.

    ``patience``: seconds without a line. ``until``: when all ends, as time.monotonic() counts.
    """
    with ThreadPoolExecutor(max(1, workers)) as pool:
        found = pool.map(lambda names: _share(command, names, until, patience), shares)
        return [row for rows in found for row in rows]


def strided(names: Sequence[str], workers: int) -> list[list[str]]:
    """As many shares as there are workers, at most."""
    return [list(names[k::workers]) for k in range(min(workers, len(names)))]


def _share(command: Command, names: Sequence[str], until: float, patience: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    left = list(names)
    while left and time.monotonic() < until:
        at, why = _one_child(command(left), left[0], until, patience, rows)
        if why is None:
            return rows
        if not any(r["case"] == at and "failed" in r for r in rows):
            rows.append({"case": at, "failed": why})
            print(json.dumps(rows[-1]), flush=True)
        left = left[left.index(at) + 1 :]
    return rows + [{"case": n, "failed": "no time left"} for n in left]


def _one_child(
    command: list[str], at: str, until: float, patience: float, rows: list[dict[str, Any]]
) -> tuple[str, str | None]:
    """The case that a child was at when it ended, and why it did; None where it did all."""
    lines: Queue[str | None] = Queue()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        while True:
            try:
                line = lines.get(timeout=max(0.0, min(patience, until - time.monotonic())))
            except Empty:
                process.kill()
                return at, f"killed after {patience:.0f} s" if time.monotonic() < until else "no time left"
            if line is None:
                break
            found = json.loads(line)
            at = found.get("begins", at)
            if "case" in found:
                rows.append(found)
                print(json.dumps(found)[:400], flush=True)
    return at, None if process.returncode == 0 else f"the process ended with {process.returncode}"


def _read(process: subprocess.Popen[str], lines: Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            lines.put(line)
    lines.put(None)


__all__ = ["strided", "supervised"]
