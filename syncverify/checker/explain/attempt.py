"""One edit that may mend a refuted kernel."""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.base.diagnostics import Mistake
from syncverify.base.source import Span
from syncverify.checker.explain.redundancy import Change


@dataclass(frozen=True, slots=True)
class Attempt:
    """An edit of the events at ``place``, the mistake that it would mend, and what to tell the author."""

    mistake: Mistake
    change: Change
    place: Span
    text: str


__all__ = ["Attempt"]
