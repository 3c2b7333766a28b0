"""Reports kept by what they are the answer to: a second check of the same input reads the first one's.

The key is a hash of everything that a report depends on: the tool's own files, the input with the headers
that it includes, launch facts, options and policy. The value is the reports as JSON, with a hash of its own:
an entry that is torn or of another form counts as none. Files appear whole, by renaming, so that several
runs can write at once. What a guard or a fault ended is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from syncverify.base import diagnostics, source
from syncverify.base.cache_dir import Store, default_root
from syncverify.base.diagnostics import KernelReport
from syncverify.base.includes import header_places
from syncverify.base.installed import tool_digest
from syncverify.base.reason import Cause, Reason, as_data, has, heard

#: The newest entries that are kept when there are more than ``MOST``.
MOST, KEPT = 4_000, 3_000
_ENDED = (Cause.INTERNAL_FAULT, Cause.TIMEOUT, Cause.MEMORY)
_CLASSES: dict[str, Any] = {
    name: x
    for module in (diagnostics, source)
    for name, x in vars(module).items()
    if isinstance(x, type) and (is_dataclass(x) or (issubclass(x, StrEnum) and x is not StrEnum))
}
_SKIPPED = frozenset({"proof", "protocol", "refuted_facts", "refuted_system", "suspect", "untold_repairs"})
_FILE = re.compile(rb'^[ \t]*\.file[ \t]+\d+[ \t]+"([^"\n]+)"', re.MULTILINE)


def store() -> Store:
    """Where reports are kept."""
    return Store(default_root() / "reports")


def key(data: bytes, parts: Mapping[str, object], headers: Iterable[bytes] = ()) -> str:
    """The name of an entry: of an input, its headers and everything else that decides its reports."""
    digest = hashlib.sha256(tool_digest().encode())
    for piece in (data, *headers):
        digest.update(hashlib.sha256(piece).digest())
    digest.update(repr(sorted((k, repr(v)) for k, v in parts.items())).encode())
    return digest.hexdigest()


def headers(path: Path, data: bytes, folders: Sequence[str]) -> list[bytes] | None:
    """The headers of a source by their places, for ``key``; None where they cannot be told."""
    found = included(path, data, folders)
    return None if found is None else [os.fsencode(p) + b"\n" + found[p] for p in sorted(found)]


def included(path: Path, data: bytes, folders: Sequence[str]) -> dict[Path, bytes] | None:
    """The contents of all headers that a source may include and that lie beside it or in the folders; None
    where they cannot be determined from its text. Headers of the toolchain are the toolchain's."""
    found = header_places(path, data, folders)
    return None if found is None else {p.resolve(): text for p, text in found.items() if text is not None}


def sources_of(data: bytes) -> list[str]:
    """The sources that the line table of a PTX text lists: names of barriers are read there."""
    return [os.fsdecode(name) for name in _FILE.findall(data)]


def listed(data: bytes) -> list[bytes]:
    """Their contents by their names, for ``key``; a report does without those that cannot be read."""
    found = []
    for name in sources_of(data):
        try:
            found.append(os.fsencode(name) + b"\n" + Path(name).read_bytes())
        except (OSError, ValueError):
            continue
    return found


def kept(reports: Iterable[KernelReport]) -> bool:
    """Whether reports are the answer to their key, and not to how much time there was."""
    return not any(has(r.reason, *_ENDED) or any(d.rule == "SV907" for d in r.diagnostics) for r in reports)


def dumped(reports: Sequence[KernelReport], names: Iterable[str]) -> bytes:
    """The value of an entry."""
    body = json.dumps({"reports": _plain(tuple(reports)), "names": sorted(names)}, separators=(",", ":"))
    return f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}".encode()


def restored(data: bytes | None) -> tuple[tuple[KernelReport, ...], frozenset[str]] | None:
    """The reports of an entry, and all names of its file; None where it is none."""
    if data is None:
        return None
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    try:
        found = json.loads(body)
        reports = _made(found["reports"])
        names = frozenset(map(str, found["names"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return (reports, names) if all(isinstance(r, KernelReport) for r in reports) else None


def pruned(root: Path) -> None:
    """Takes the oldest entries away where there are too many."""
    try:
        every = [(e.stat().st_mtime_ns, e.path) for e in os.scandir(root) if e.is_file()]
    except OSError:
        return
    if len(every) > MOST:
        for _, path in sorted(every)[: len(every) - KEPT]:
            Path(path).unlink(missing_ok=True)


def _plain(x: Any) -> Any:
    if isinstance(x, Reason):
        return {"$": "Reason", **as_data(x)}
    if isinstance(x, StrEnum):
        return {"$": type(x).__name__, "is": str(x)}
    if x is None or isinstance(x, bool | int | float | str):
        return x
    if isinstance(x, tuple | list):
        return [_plain(y) for y in x]
    if isinstance(x, Mapping):
        items = [[str(k), _plain(v)] for k, v in x.items() if _scalar(v)]
        return {"$": "Mapping", "items": items}
    values = {f.name: _plain(getattr(x, f.name)) for f in fields(x) if f.name not in _SKIPPED}
    return {"$": type(x).__name__, **values}


def _scalar(x: Any) -> bool:
    """Whether a value of a mapping can be kept; only statistics have others, which no format shows."""
    return x is None or isinstance(x, bool | int | float | str)


def _made(x: Any) -> Any:
    if isinstance(x, list):
        return tuple(map(_made, x))
    if not isinstance(x, dict):
        return x
    name = x.pop("$")
    if name == "Reason":
        return heard(x)
    if name == "Mapping":
        return {k: _made(v) for k, v in x["items"]}
    made = _CLASSES[name]
    return made(x["is"]) if issubclass(made, StrEnum) else made(**{k: _made(v) for k, v in x.items()})


__all__ = [
    "dumped",
    "headers",
    "included",
    "kept",
    "key",
    "listed",
    "pruned",
    "restored",
    "sources_of",
    "store",
]
