"""A program is run, and what it launches is written down."""

from __future__ import annotations

import re
import runpy
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from syncverify.frontends.names import base_name
from syncverify.frontends.ptx.parser import parse
from syncverify.record.launches import Journal, Launch
from syncverify.record.ptx_files import PtxFiles
from syncverify.record.text import launch_file
from syncverify.source import InputError

#: A file's name is no longer than this.
LONGEST = 100


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was written. ``files``: the PTX, each with a launch file beside it; ``left``: kernels that were
    not, and why; ``built_in``: how many more have no PTX, since they came compiled with a library."""

    files: tuple[Path, ...]
    left: tuple[tuple[str, str], ...]
    built_in: int = 0


def run_program(program: str, arguments: Sequence[str], as_module: bool) -> int:
    """Runs a Python program in this process as ``python`` does; its exit status."""
    before = sys.argv, sys.path[0]
    sys.argv = [program, *arguments]
    sys.path[0] = "" if as_module else str(Path(program).resolve().parent)
    try:
        if as_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


def record(
    program: str, arguments: Sequence[str] = (), *, as_module: bool = False
) -> tuple[Journal, int, list[str]]:
    """Runs a Python program and listens to the driver: what it launched, its exit status, and what went wrong
    in listening. Raises InputError where nothing can be listened to."""
    from syncverify.record.cupti import listening
    from syncverify.record.driver import LibCuda
    from syncverify.record.listen import Listener

    if not as_module and not Path(program).is_file():
        raise InputError(f"{program}: no such program")
    try:
        listener = Listener(LibCuda())
    except OSError:
        raise InputError("record needs a GPU: there is no CUDA driver (libcuda.so.1) here") from None
    with listening(listener) as wrong:
        status = run_program(program, arguments, as_module)
    return listener.journal, status, wrong


def write(
    journal: Journal, folder: Path, ptx: PtxFiles, kernels: Iterable[str] = (), most: int = 4, said: str = ""
) -> Recorded:
    """Writes each launch as ``NAME.ptx`` and ``NAME.ptx.launch.toml``; of one kernel the first ``most``.

    ``kernels``: patterns of names, all if none; ``said``: what the launch files say of where they come from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    patterns = tuple(kernels)
    files: list[Path] = []
    left: list[tuple[str, str]] = []
    taken: set[str] = set()
    built_in = 0
    for (kernel, image), launches in journal.by_kernel().items():
        if patterns and not any(fnmatchcase(n, p) for n in (kernel, base_name(kernel)) for p in patterns):
            continue
        text, why = ptx.of(kernel, journal.images[image] if image >= 0 else None)
        if text is None:
            if image < 0 and not patterns:
                built_in += 1
            else:
                left.append((kernel, why))
            continue
        try:
            entry = next((f for f in parse(text, kernel).entries if f.name == kernel), None)
        except InputError as e:
            left.append((kernel, f"its PTX cannot be read: {e}"))
            continue
        for i, launch in enumerate(launches):
            fault = (
                "its PTX has no such entry"
                if entry is None
                else _differs(launch, [p.size for p in entry.params])
            )
            if fault or entry is None:
                left.append((kernel, fault))
                break
            if i >= most:
                left.append((kernel, f"{len(launches) - most} further launches, of {len(launches)}"))
                break
            head = [said] * bool(said) + [
                f"{journal.launches[launch]} launches alike; addresses that differ are taken not to overlap"
            ]
            path = folder / f"{_file_name(kernel, taken)}.ptx"
            path.write_text(text)
            path.with_name(f"{path.name}.launch.toml").write_text(
                launch_file(launch, entry, journal.maps, head)
            )
            files.append(path)
    left += [(k, w) for k, w in journal.unreadable.items()]
    return Recorded(tuple(files), tuple(left), built_in)


def _differs(launch: Launch, sizes: list[int]) -> str:
    """Why a launch is none of a kernel with parameters of such sizes."""
    have = [len(p) for p in launch.params]
    return "" if have == sizes else f"its parameters have {have} bytes, those of the PTX {sizes}"


def _file_name(kernel: str, taken: set[str]) -> str:
    """A name for a file that no other kernel has."""
    stem = re.sub(r"[^\w.-]+", "_", base_name(kernel) or kernel)[:LONGEST]
    name, n = stem, 1
    while name in taken:
        n += 1
        name = f"{stem}-{n}"
    taken.add(name)
    return name


__all__ = ["Recorded", "record", "run_program", "write"]
