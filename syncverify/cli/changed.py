"""Which kernels a change concerns: what a hook hands over are files that changed, not only kernels.

A launch file concerns the file that it lies beside; a header the CUDA sources below the working directory
that include it, directly or through others. Where the text of a source does not tell what it includes, it
counts as concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from syncverify.base.source import read_bytes
from syncverify.cli.inputs import SUFFIXES
from syncverify.driver.reports.stored_reports import included

LAUNCH = ".launch.toml"
HEADERS = (".cuh", ".h", ".hpp", ".hxx", ".inl")


def concerned(changed: Iterable[str], folders: Sequence[str]) -> tuple[str, ...]:
    """The kernel files that changed files concern, each once, in order. ``folders``: those of ``-I``."""
    found: dict[str, None] = {}
    headers: set[Path] = set()
    for name in changed:
        if name.endswith(LAUNCH):
            kernel = name.removesuffix(LAUNCH)
            found |= dict.fromkeys(_inputs_of(Path(kernel)))
        elif Path(name).suffix in HEADERS:
            headers.add(Path(name).resolve())
        else:
            found[name] = None
    if headers:
        found |= {str(p): None for p in _sources() if _includes(p, headers, folders)}
    return tuple(found)


def _inputs_of(path: Path) -> list[str]:
    """The input of a launch file: ``a.cu`` of ``a.cu.launch.toml``, ``a.ptx`` of ``a.launch.toml``."""
    named = [path, *(path.with_name(path.name + suffix) for suffix in SUFFIXES)]
    return [str(p) for p in named if p.suffix in SUFFIXES and p.is_file()]


def _sources() -> list[Path]:
    here = Path()
    every = sorted(here.rglob("*.cu"))
    return [p for p in every if not any(part.startswith(".") for part in p.parts)]


def _includes(source: Path, headers: set[Path], folders: Sequence[str]) -> bool:
    found = included(source, read_bytes(source), folders)
    return found is None or not headers.isdisjoint(found)


__all__ = ["concerned"]
