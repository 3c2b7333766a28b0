"""Comments that silence findings: ``syncverify: ignore SV603 -- why`` on the finding's line or the one above.

Only warnings and notes can be silenced: an error refutes a kernel, and a kernel that is refuted stays so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity
from syncverify.base.rules import RULES
from syncverify.base.source import InputError, Span

_MARK = re.compile(r"(?P<comment>//|#|/\*)\s*syncverify:\s*ignore\b(?P<rules>[^\n]*)")
_RULES = re.compile(r"SV\d+\w*|[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: the line it stands on, the line whose findings it silences, and which rules."""

    line: int
    target: int
    rules: tuple[str, ...]


def find(text: str, path: str) -> tuple[Suppression, ...]:
    """The suppressions of a source text; InputError for one that names no rule that exists."""
    return tuple(_found(text, path)) if "syncverify:" in text else ()


def _found(text: str, path: str) -> Iterator[Suppression]:
    for number, line in enumerate(text.split("\n"), 1):
        mark = _MARK.search(line)
        if mark is None:
            continue
        listed = mark["rules"].split("--")[0].split("*/")[0]
        rules = tuple(_RULES.findall(listed))
        unknown = next((r for r in rules if r not in RULES), None)
        if unknown is not None or not rules:
            what = f"there is no rule {unknown!r}" if unknown else "name the rules to ignore"
            raise InputError(f"{what}: write `syncverify: ignore SV603 -- why`", Span(path, number))
        alone = not line[: mark.start("comment")].strip()
        yield Suppression(number, number + 1 if alone else number, rules)


def apply(
    reports: Sequence[KernelReport], suppressions: Sequence[Suppression], path: str, complete: bool
) -> list[KernelReport]:
    """The reports of a file without what its comments silence.

    ``complete``: all kernels of the file are among the reports, so that a comment which silenced nothing is
    reported as SV903 (with the first kernel).
    """
    if not suppressions or not reports:
        return list(reports)
    by_line = {(s.target, rule): s for s in suppressions for rule in s.rules}
    used: set[tuple[int, str]] = set()
    out = [_without(report, by_line, path, used) for report in reports]
    unused = [key for key in by_line if key not in used] if complete else []
    notes = tuple(_unused(by_line[key], key[1], path) for key in unused)
    return [replace(out[0], diagnostics=out[0].diagnostics + notes), *out[1:]]


def _without(
    report: KernelReport, by_line: dict[tuple[int, str], Suppression], path: str, used: set[tuple[int, str]]
) -> KernelReport:
    kept: list[Diagnostic] = []
    for d in report.diagnostics:
        key = (d.span.line, d.rule)
        if d.span.file != path or key not in by_line:
            kept.append(d)
            continue
        used.add(key)
        if d.severity is Severity.ERROR:
            kept.append(d)
            kept.append(
                Diagnostic(
                    "SV903",
                    Severity.NOTE,
                    f"{d.rule} is an error here: errors cannot be ignored",
                    Span(path, by_line[key].line),
                )
            )
    return replace(report, diagnostics=tuple(kept))


def _unused(s: Suppression, rule: str, path: str) -> Diagnostic:
    text = f"{rule} is ignored here, but nothing reports it on line {s.target}"
    return Diagnostic("SV903", Severity.WARNING, text, Span(path, s.line), fix="remove the comment")
