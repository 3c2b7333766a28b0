"""A program is run, and what it launches is written down."""

from __future__ import annotations

import re
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from syncverify.base.kernel_names import base_name
from syncverify.base.source import InputError
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.record.launches import Journal, Launch
from syncverify.record.ptx_files import PtxFiles
from syncverify.record.text import launch_file, opened

#: A file's name is no longer than this.
LONGEST = 100
TAKEN = "addresses that differ are taken not to overlap"


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
    journal: Journal, folder: Path, ptx: PtxFiles, kernels: Iterable[str] = (), most: int = 4, said: str = "",
    open_: bool = False,
) -> Recorded:  # fmt: skip
    """Writes each launch as ``NAME.ptx`` and ``NAME.ptx.launch.toml``; of one kernel the first ``most``.
    ``open_``: sizes that differ between launches of a kernel are left out (``opened``).

    ``kernels``: patterns of names, all if none; ``said``: what the launch files say of where they come from.
    """
    patterns = tuple(kernels)
    files: list[Path] = []
    left: list[tuple[str, str]] = []
    taken: set[str] = set()
    built_in = 0
    for (kernel, image), launches in journal.by_kernel().items():
        if patterns and not any(fnmatchcase(n, p) for n in (kernel, base_name(kernel)) for p in patterns):
            continue
        text, why = ptx.of(kernel, journal.images[image] if image >= 0 else None)
        if text is None and image < 0 and not patterns:
            built_in += 1
            continue
        texts, why = (Counter[str](), why) if text is None else _texts(text, launches, journal)
        if why:
            left.append((kernel, why))
        if len(texts) > most and not open_:
            left.append((kernel, f"{len(texts) - most} further launches, of {len(texts)} that differ"))
        for facts, count in list((opened(texts) if open_ else texts).items())[:most]:
            path = folder / f"{_file_name(kernel, taken)}.ptx"
            path.write_text(text or "")
            alike = "launches; what differs between them is left out" if open_ else "launches alike"
            head = [said] * bool(said) + [f"{count} {alike}; {TAKEN}"]
            path.with_name(f"{path.name}.launch.toml").write_text("".join(f"# {x}\n" for x in head) + facts)
            files.append(path)
    left += [(k, w) for k, w in journal.unreadable.items()]
    return Recorded(tuple(files), tuple(left), built_in)


def _texts(text: str, launches: list[Launch], journal: Journal) -> tuple[Counter[str], str]:
    """The launch files of a kernel, each with how many launches it represents; or why there are none."""
    found = Counter[str]()
    kernel = launches[0].kernel
    try:
        entry = next((f for f in parse(text, kernel).entries if f.name == kernel), None)
    except InputError as e:
        return found, f"its PTX cannot be read: {e}"
    if entry is None:
        return found, "its PTX has no such entry"
    for launch in launches:
        fault = _differs(launch, [p.size for p in entry.params])
        if fault:
            return found, fault
        found[launch_file(launch, entry, journal.maps)] += journal.launches[launch]
    return found, ""


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
