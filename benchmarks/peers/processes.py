"""Other programs, run with limits and measured."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def without_folders(text: str) -> str:
    """Paths in a text cut down to file names."""
    return re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])", "", text)


@dataclass(frozen=True)
class Timed:
    """What a process wrote (nothing if it ran out of time), its processor seconds and its peak MiB."""

    output: str
    seconds: float
    mib: int
    timeout: bool


def timed(command: list[str], limit: float, errors: bool = False) -> Timed:
    """Runs a process and those that it starts, with a limit on their processor seconds.

    ``errors``: what it writes to standard error is part of its output.
    """
    with tempfile.TemporaryFile("w+") as sink:
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=sink if errors else subprocess.DEVNULL,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        late, pause = False, 0.01
        while not done:
            if not late and cpu_of_group(process.pid) > limit:
                os.killpg(process.pid, signal.SIGKILL)
                late = True
            time.sleep(pause)
            pause = min(0.5, 1.2 * pause)
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        sink.seek(0)
        seconds = round(usage.ru_utime + usage.ru_stime, 2)
        if late:
            return Timed("", max(seconds, limit), usage.ru_maxrss // 1024, True)
        return Timed(sink.read(), seconds, usage.ru_maxrss // 1024, False)


def cpu_of_group(group: int) -> float:
    """Processor seconds of the processes of a group, with their children that have ended."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")
