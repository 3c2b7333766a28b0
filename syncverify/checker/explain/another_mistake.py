"""Whether an edit mends the first mistake of a kernel that has others, too.

With two mistakes no single edit makes a proof, so none would be shown. An edit counts here if what it leaves
cannot be the first mistake in another form. Two cases are that plain:

    only fences   all that is left lacks a proxy fence: then accesses are in order, and the phases are right
    known before  the first finding is gone, and each that is left was an error, or its consequence, before

Worked example. A consumer's parity never flips, and its reads have no proxy fence before the release. With
the flip the order is right and SV105 is left: the edit mends the parity.
"""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.base.diagnostics import Diagnostic, Remaining, Severity

#: Rules of accesses that are in order and lack a proxy fence.
_FENCES = frozenset({"SV101", "SV102", "SV103", "SV105"})

#: Rules of cost, and of the tool itself.
_NO_HARM = ("SV6", "SV9")


def remaining(before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> Remaining | None:
    """What is left when an edit mends the first of the findings ``before``; None if it mends no mistake."""
    root = next((d for d in before if d.severity is Severity.ERROR), None)
    errors = [d for d in after if d.severity is Severity.ERROR]
    if root is None or not errors:
        return None
    broken = [d for d in after if d.severity is not Severity.WARNING and not d.rule.startswith(_NO_HARM)]
    only_fences = root.rule not in _FENCES and all(d.rule in _FENCES for d in broken)
    if only_fences or _known(root, before, broken):
        return Remaining(errors[0].rule, errors[0].span)
    return None


def _known(root: Diagnostic, before: Sequence[Diagnostic], broken: Sequence[Diagnostic]) -> bool:
    """Whether findings are some of those that followed another error than the first."""
    at = next((i for i, d in enumerate(before) if d is not root and d.severity is Severity.ERROR), None)
    if at is None:
        return False
    others = {_key(d) for d in before[at:]} - {_key(root)}
    return all(_key(d) in others for d in broken)


def _key(d: Diagnostic) -> tuple[str, str, int]:
    return d.rule, d.span.file, d.span.line


__all__ = ["remaining"]
