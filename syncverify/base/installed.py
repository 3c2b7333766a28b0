"""Which tool it is: a digest of what is installed, by sizes and times of files. None of them is read.

An edit of a file of the tool, another version of Python, of the solver or of the CUDA compiler gives another.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing's own would have to be loaded
if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_TOOL = (".py", ".lark", ".h", ".cuh", ".syncir")
#: Other packages whose version decides reports, by a path that every installation writes.
_OTHERS = ("z3/__init__.py", "nvidia", "cuda")
_FOUND: list[str] = []


def tool_digest() -> str:
    """A hash of the tool as it is installed: of each of its files, of Python, the solver and the compiler."""
    if not _FOUND:
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        parts = [sys.version, *map(str, _others())]
        parts += [f"{path.removeprefix(root)} {size} {at}" for path, size, at in sorted(_files(root))]
        _FOUND.append(digest("\n".join(parts).encode()))
    return _FOUND[0]


def digest(data: bytes) -> str:
    """BLAKE2b of bytes, in hexadecimal. Where there is one, the interpreter's own, which loads fast."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=32).hexdigest()


def _others() -> Iterator[int]:
    """When other packages were installed, in nanoseconds; 0: one is not."""
    for name in _OTHERS:
        for folder in sys.path:
            try:
                yield os.stat(os.path.join(folder, name)).st_mtime_ns
                break
            except OSError:
                continue
        else:
            yield 0


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """The tool's files below a folder: where, how large, when changed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_OF_TOOL):
                at = entry.stat()
                yield entry.path, at.st_size, at.st_mtime_ns
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


__all__ = ["digest", "tool_digest"]
