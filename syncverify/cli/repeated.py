"""A command line that is given again, on files that are as they were, prints what it printed then.

Checks that ran before are found in the cache of reports (``driver.reports.stored_reports``); still, a
process loads modules, reads options and writes the report. Here the whole output is kept, by the command
line and all that it depends on: the tool, the working directory, the terminal, the environment variables
that are read, and every file that was looked at, or looked for in vain; of a folder, which kernel files it
has. What is asked is asked before anything else is loaded. Reports that were written to files are kept, too,
and written again.

Example: ``syncverify check ring.cu`` a second time reads one entry, compares the contents of ring.cu and of
its headers with it, sees that there is still no ring.cu.launch.toml and no configuration, and prints.
"""

from __future__ import annotations

import os
import sys
import time

from syncverify.base.cache_root import cache_root
from syncverify.base.installed import digest, tool_digest
from syncverify.base.suffixes import SUFFIXES

TYPE_CHECKING = False  # typing's own would have to be loaded
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Environment variables that decide what ``check`` prints.
VARIABLES = (
    "COLUMNS",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "FORCE_COLOR",
    "GITHUB_STEP_SUMMARY",
    "NO_COLOR",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
    "PATH",
    "SYNCVERIFY_NO_CACHE",
    "SYNCVERIFY_TRACEBACK",
)
#: The folder of entries in the cache directory.
FOLDER = "runs"
_FORM = "2"
_ABSENT = "-"
#: By so many nanoseconds times of files may be behind the clock.
_GRAIN = 20_000_000
#: One write in so many looks for entries that are too old.
_PRUNE = 64


class Asked:
    """A command line as it was given, and when. ``name``: of its entry."""

    __slots__ = ("began", "name")

    def __init__(self, args: list[str]) -> None:
        self.began = time.time_ns() - _GRAIN
        parts = [_FORM, tool_digest(), *_surroundings(), *args]
        self.name = digest("\0".join(parts).encode("utf-8", "surrogateescape"))


#: What this process was asked for; none where no command line began it.
_NOW: list[Asked] = []


def begun(args: list[str]) -> tuple[bytes, int] | None:
    """Takes a command line down; what it printed on the same files, and its status, if that is known.

    Then the reports that it wrote to files are there again.
    """
    if args[:1] != ["check"] or os.environ.get("SYNCVERIFY_NO_CACHE") or sys.stdout is None:
        return None
    try:
        asked = Asked(args)
        _NOW.append(asked)
        return _known(asked.name)
    except (OSError, ValueError):
        return None  # no working directory, or no cache


def keep(output: str, status: int, files: Iterable[str], reports: Mapping[str, bytes] | None = None) -> None:
    """Keeps what this process prints, and the ``reports`` that it wrote, by file.

    ``files``: all that it looked at, and for; folders end in a slash.
    Nothing is kept if a file changed since the process began: it may not be the one that was read.
    """
    if not _NOW:
        return
    asked = _NOW[-1]
    try:
        printed = output.encode(sys.stdout.encoding, sys.stdout.errors or "strict")
        lines = [f"{_content(path, asked.began)} {path}" for path in sorted(set(files))]
        written = dict(reports or {})
        sizes = [f"{len(body)} {path}" for path, body in written.items()]
        first = f"{status} {len(sizes)}"
        head = "\n".join([first, *sizes, *lines, "", ""]).encode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return
    if head.count(b"\n") == len(sizes) + len(lines) + 2:
        _write(asked.name, b"".join((head, *written.values(), printed)))


def _write(name: str, body: bytes) -> None:
    from pathlib import Path

    from syncverify.base.cache_dir import Store
    from syncverify.driver.reports.stored_reports import pruned

    store = Store(Path(cache_root()) / FOLDER)
    store.write(name, digest(body).encode() + b"\n" + body)
    if int(name[:8], 16) % _PRUNE == 0:
        pruned(store.root)


def _known(name: str) -> tuple[bytes, int] | None:
    """What an entry says, if it is whole and every file is as it was."""
    with open(os.path.join(cache_root(), FOLDER, name), "rb") as file:
        whole, _, body = file.read().partition(b"\n")
    if digest(body).encode() != whole:
        return None
    head, _, rest = body.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "surrogateescape").split("\n")
    status, _, reports = first.partition(" ")
    for line in lines[int(reports) :]:
        content, _, path = line.partition(" ")
        if _content(path) != content:
            return None
    return _written(lines[: int(reports)], rest), int(status)


def _written(reports: list[str], rest: bytes) -> bytes:
    """Writes reports, which follow each other, to their files; what is left is for stdout."""
    for line in reports:
        size, _, path = line.partition(" ")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(rest[: int(size)])
        rest = rest[int(size) :]
    return rest


def _content(path: str, before: int | None = None) -> str:
    """A digest of a file's content, or of the names in a folder; ``-`` where there is none.

    ValueError if a file changed after a time.
    """
    try:
        if path.endswith("/"):
            return digest("\0".join(_inside(path)).encode("utf-8", "surrogateescape"))
        with open(path, "rb") as file:
            if before is not None and os.fstat(file.fileno()).st_ctime_ns >= before:
                raise ValueError(f"{path} changed")
            return digest(file.read())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return _ABSENT


def _inside(folder: str) -> list[str]:
    """The kernel files and, with a slash, the folders in a folder, but hidden ones."""
    with os.scandir(folder) as entries:
        shown = [e for e in entries if not e.name.startswith(".")]
        names = [
            f"{e.name}/" if e.is_dir() else e.name for e in shown if e.is_dir() or e.name.endswith(SUFFIXES)
        ]
    return sorted(names)


def _surroundings() -> list[str]:
    """What else a report depends on: directory, environment, and what stdout is."""
    variables = [f"{name}={os.environ.get(name)}" for name in VARIABLES]
    out = sys.stdout
    size = str(os.get_terminal_size(out.fileno())) if out.isatty() else ""
    here = [os.getcwd(), str(out.encoding), str(out.errors), size]
    return [*here, *variables, "\0".join(sys.path), _compiler()]


def _compiler() -> str:
    """When the CUDA compiler that the environment leads to was installed."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [os.path.join(home, "bin") for home in homes if home]
    for folder in (*folders, *os.environ.get("PATH", "").split(os.pathsep)):
        try:
            at = os.stat(os.path.join(folder, "nvcc")).st_mtime_ns
        except OSError:
            continue
        return f"{folder} {at}"
    return ""


__all__ = ["FOLDER", "VARIABLES", "begun", "keep"]
