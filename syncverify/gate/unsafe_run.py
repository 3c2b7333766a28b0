"""Running kernels that are not proved, on purpose: in a child process, under a deadline.

A refuted kernel may hang the GPU's context; killing the process that owns the context frees it.
"""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Literal

from syncverify.fusion.graph import Fusion
from syncverify.ir.nodes import Kernel

Ending = Literal["finished", "timeout", "crashed", "failed"]
#: What the messages of the driver, and of libraries on top of it, say when the hardware stopped a kernel.
_STOPPED = re.compile(
    "waiting for the kernel failed|LAUNCH_FAILED|ILLEGAL_|MISALIGNED_|INVALID_PC"
    "|unspecified launch failure|illegal memory access|illegal instruction|misaligned address"
)


@dataclass(frozen=True, slots=True)
class Watched:
    """How a child ended, what it had printed by then, and the last line of its errors."""

    ending: Ending
    output: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class UnsafeResult:
    """How the child ended: ``timeout`` is a hang, ``crashed`` a kernel that the hardware stopped.

    ``wrong`` counts elements that differ from the reference, over all launches.
    """

    ending: Ending
    wrong: int = 0
    elements: int = 0
    message: str = ""


def watched(
    command: Sequence[str],
    work: bytes,
    timeout: float,
    quiet: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Watched:
    """Runs a command on ``work``; what it printed is kept.

    It is killed at the deadline, or once it has printed something and then nothing for ``quiet`` seconds.
    """
    child = subprocess.Popen(
        list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    end, last = time.monotonic() + timeout, time.monotonic()
    printed: list[bytes] = []
    errors: list[bytes] = []

    def read() -> None:
        nonlocal last
        for line in child.stdout or ():
            printed.append(line)
            last = time.monotonic()

    def feed() -> None:
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as to:
            to.write(work)

    threads = [Thread(target=t, daemon=True) for t in (read, feed, lambda: errors.extend(child.stderr or ()))]
    for thread in threads:
        thread.start()
    killed = ""
    while child.poll() is None and not killed:
        now = time.monotonic()
        if now >= end:
            killed = f"killed after {timeout:g} s"
        elif quiet is not None and printed and now - last >= quiet:
            killed = f"killed after {quiet:g} s of silence"
        else:
            time.sleep(0.02)
    if killed:
        child.kill()
        child.wait()
    for thread in threads:
        thread.join(5.0)
    text = b"".join(printed).decode(errors="replace")
    if killed:
        return Watched("timeout", text, killed)
    if child.returncode == 0:
        return Watched("finished", text)
    lines = b"".join(errors).decode(errors="replace").strip().splitlines()
    stops = [line for line in lines if _STOPPED.search(line)]
    message = (stops or lines or [f"status {child.returncode}"])[-1]
    return Watched("crashed" if stops else "failed", text, message)


def run_in_child(
    fusion: Fusion, kernel: Kernel, sizes: Mapping[str, int], timeout: float, launches: int
) -> UnsafeResult:
    """Starts ``python -m syncverify.gate.unsafe_child`` with this work and kills it at the deadline."""
    work = pickle.dumps((fusion, kernel, dict(sizes), launches))
    seen = watched([sys.executable, "-m", "syncverify.gate.unsafe_child"], work, timeout)
    if seen.ending != "finished":
        return UnsafeResult(seen.ending, message=seen.message)
    answer = json.loads(seen.output)
    return UnsafeResult("finished", answer["wrong"], answer["elements"])


def run_unsafe(
    fusion: Fusion, kernel: Kernel, sizes: Mapping[str, int], *, timeout: float = 20.0, launches: int = 1
) -> UnsafeResult:
    """Runs a kernel of ``fusion`` WITHOUT asking for its proof, in a child that is killed after ``timeout``.

    Only for experiments that show what a refuted kernel does, such as one built without some pass.
    """
    return run_in_child(fusion, kernel, sizes, timeout, launches)
