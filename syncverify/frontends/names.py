"""Names of kernels: the one that a C++ programmer wrote, out of the mangled one (Itanium C++ ABI)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_NAME = re.compile(r"(?:L|S[a-z])?(\d+)")


def base_name(entry: str) -> str:
    """The unqualified name without template arguments; ``entry`` itself if it is not mangled."""
    if not entry.startswith("_Z"):
        return entry
    at = 3 if entry.startswith("_ZN") else 2
    found = entry
    while (match := _NAME.match(entry, at)) is not None:
        end = match.end() + int(match[1])
        if end > len(entry):
            break
        found, at = entry[match.end() : end], end
        if not entry.startswith("_ZN"):
            break
    return found


def matches(entry: str, pattern: str) -> bool:
    """Whether a kernel is meant by ``pattern`` (``*`` and ``?`` match): by its own or by its base name."""
    return fnmatchcase(entry, pattern) or fnmatchcase(base_name(entry), pattern)
