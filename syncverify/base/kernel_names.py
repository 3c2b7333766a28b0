"""Names: the one that a C++ programmer wrote, out of the mangled one (Itanium C++ ABI)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

#: Longer names, as templates have them, are not shown whole in messages and text reports.
LONGEST_NAME = 100
_NAME = re.compile(r"(?:L|S[a-z])?(\d+)")
_LOCAL = re.compile(r"E(\d+)")  # after the encoding of the function that a static variable is local to


def base_name(entry: str) -> str:
    """The unqualified name without template arguments; ``entry`` itself if it is not mangled."""
    if not entry.startswith("_Z"):
        return entry
    if entry.startswith("_ZZ"):
        return _local_name(entry)
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


def _local_name(entry: str) -> str:
    """``tile`` of ``_ZZ6kernelvE4tile``, with or without a discriminator (``_0``) behind it."""
    for match in _LOCAL.finditer(entry):
        end = match.end() + int(match[1])
        if end <= len(entry) and re.fullmatch(r"(_\d+|__\d+_)?", entry[end:]):
            return entry[match.end() : end]
    return entry


def matches(entry: str, pattern: str) -> bool:
    """Whether a kernel is meant by ``pattern`` (``*`` and ``?`` match): by its own or by its base name."""
    return fnmatchcase(entry, pattern) or fnmatchcase(base_name(entry), pattern)
