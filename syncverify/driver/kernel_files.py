"""The kernel files of a folder; apart from their check, which a result from the cache does not need."""

from __future__ import annotations

from pathlib import Path

from syncverify.base.source import InputError, Span
from syncverify.base.suffixes import SUFFIXES


def kernel_files(folder: Path) -> list[Path]:
    """The kernel files in a folder at any depth, sorted, but hidden ones. InputError if there are none."""
    inside = sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES and p.is_file())
    shown = [p for p in inside if not any(part.startswith(".") for part in p.relative_to(folder).parts)]
    if not shown:
        raise InputError(f"no {', '.join(SUFFIXES)} file in this directory", Span(str(folder)))
    return shown


__all__ = ["SUFFIXES", "kernel_files"]
