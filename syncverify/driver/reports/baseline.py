"""Findings that a project has accepted: a file of them, so that only new ones fail a run.

A finding is known by its rule, kernel, file and the text of its line, not by the line's number: code above it
may move it. Equal findings are counted. An undecided kernel is known by the kind of its reason.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.base.reason import kind_of
from syncverify.base.source import InputError, Span, decode, read_bytes

VERSION = 1
#: The rule of an undecided kernel in a baseline.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Entry:
    """An accepted finding: where it is, and the hash by which it is known."""

    file: str
    kernel: str
    rule: str
    fingerprint: str


Lines = Callable[[str], tuple[str, ...]]


def entry_of(k: KernelReport, d: Diagnostic, lines: Lines) -> Entry:
    """The entry of a finding. ``lines``: of a file."""
    file = d.span.file if d.span.line else k.file
    source = lines(file)
    text = source[d.span.line - 1].strip() if 0 < d.span.line <= len(source) else d.message
    return _entry(k, file, d.rule, f"{d.severity} {' '.join(text.split())}")


def unknown_entry(k: KernelReport) -> Entry:
    """The entry of an undecided kernel."""
    return _entry(k, k.file, UNKNOWN, str(kind_of(k.reason)))


def _entry(k: KernelReport, file: str, rule: str, text: str) -> Entry:
    shown = os.path.relpath(file).replace(os.sep, "/") if os.path.exists(file) else file
    described = json.dumps([shown, k.name, rule, text])
    return Entry(shown, k.name, rule, hashlib.sha256(described.encode()).hexdigest()[:32])


def entries(reports: Iterable[KernelReport], lines: Lines) -> Counter[Entry]:
    """All findings of a run but notes, and its undecided kernels."""
    found: Counter[Entry] = Counter()
    for k in reports:
        found.update(entry_of(k, d, lines) for d in k.diagnostics if d.severity is not Severity.NOTE)
        if k.verdict is Verdict.UNKNOWN:
            found[unknown_entry(k)] += 1
    return found


def written(reports: Iterable[KernelReport], lines: Lines) -> str:
    """A baseline of what a run has found."""
    found = sorted(
        entries(reports, lines).items(), key=lambda x: (x[0].file, x[0].kernel, x[0].rule, str(x[0]))
    )
    rows = [
        {"file": e.file, "kernel": e.kernel, "rule": e.rule, "fingerprint": e.fingerprint, "count": n}
        for e, n in found
    ]
    return json.dumps({"version": VERSION, "findings": rows}, indent=1) + "\n"


def read(path: str) -> Counter[Entry]:
    """A baseline from its file; InputError where it is none."""
    try:
        data: Any = json.loads(decode(read_bytes(path), path))
        if data["version"] != VERSION:
            raise InputError(f"a baseline of version {data['version']!r}; {VERSION} is supported", Span(path))
        return Counter(
            {
                Entry(str(r["file"]), str(r["kernel"]), str(r["rule"]), str(r["fingerprint"])): int(
                    r["count"]
                )
                for r in data["findings"]
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InputError(f"not a baseline (write one with --write-baseline): {e}", Span(path)) from e


@dataclass(frozen=True, slots=True)
class Compared:
    """A run beside a baseline: which findings it accepts, and what of it is gone."""

    accepted: frozenset[Entry]
    stale: tuple[Entry, ...]


def compared(known: Counter[Entry], reports: Iterable[KernelReport], lines: Lines) -> Compared:
    """Findings are accepted as often as the baseline has them; stale are those of checked kernels alone."""
    reports = list(reports)
    found = entries(reports, lines)
    seen = {k.name for k in reports}
    accepted = frozenset(e for e, n in found.items() if n <= known[e])
    stale = tuple(e for e, n in known.items() if found[e] < n and e.kernel in seen)
    return Compared(accepted, stale)


__all__ = ["Compared", "Entry", "compared", "entries", "entry_of", "read", "unknown_entry", "written"]
