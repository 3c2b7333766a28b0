"""What ``check`` is asked to look at: files, directories, patterns and standard input, in a fixed order."""

from __future__ import annotations

import atexit
import glob
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from syncverify.base.source import InputError, Span
from syncverify.driver.kernel_files import SUFFIXES, kernel_files

#: What standard input is called, on the command line and in reports.
STDIN, STDIN_NAME = "-", "<stdin>"


@dataclass(frozen=True, slots=True)
class Item:
    """One file to check. ``data``: its content where it is no file. ``entry``: only this kernel of it."""

    path: str
    data: bytes | None = None
    kind: str = ""  # of data: ptx or syncir
    entry: str | None = None


def items(given: Iterable[str], kind: str | None) -> tuple[list[Item], list[InputError]]:
    """The inputs that arguments name, each once, and what is wrong with arguments that name none."""
    found: dict[str, Item] = {}
    errors: list[InputError] = []
    for name in given:
        try:
            for item in _named(name, kind):
                found.setdefault(item.path, item)
        except InputError as e:
            errors.append(e)
        except OSError as e:  # a folder on the way that may not be entered
            errors.append(InputError(f"cannot read: {e.strerror or e}", Span(name)))
    return list(found.values()), errors


def _named(name: str, kind: str | None) -> Iterator[Item]:
    path = Path(name)
    if name == STDIN:
        yield _standard_input(sys.stdin.buffer.read(), kind)
    elif path.is_dir():
        yield from (Item(str(p)) for p in kernel_files(path))
    elif not path.exists() and glob.has_magic(name):
        matching = sorted(p for p in glob.glob(name, recursive=True) if Path(p).is_file())
        if not matching:
            raise InputError("no file matches this pattern", Span(name))
        yield from (Item(p) for p in matching)
    else:
        yield Item(name)


def _standard_input(data: bytes, kind: str | None) -> Item:
    """What standard input holds: CUDA goes into a file, which the compiler and reports can name."""
    kind = kind or _kind_of(data)
    if kind is None:
        raise InputError(
            "standard input is neither PTX nor CUDA: say --kind ptx, --kind cu or --kind syncir",
            Span(STDIN_NAME),
        )
    if kind != "cu":
        return Item(STDIN_NAME, data, kind)
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="syncverify-stdin-")
    atexit.register(folder.cleanup)
    file = Path(folder.name) / "stdin.cu"
    file.write_bytes(data)
    return Item(str(file))


def _kind_of(data: bytes) -> str | None:
    """The kind of a text: PTX begins with a directive, CUDA holds a kernel's mark."""
    lines = (line.strip() for line in data.splitlines())
    if next((x for x in lines if x and not x.startswith(b"//")), b"").startswith(b"."):
        return "ptx"
    return "cu" if b"__global__" in data else None


__all__ = ["STDIN", "STDIN_NAME", "SUFFIXES", "Item", "items"]
