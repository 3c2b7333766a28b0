"""Names for the operations of a source: the simulator finds steps by line, and a line may hold several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from syncverify.base.diagnostics import Blocked, Step
from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.model.events import Site

_COMPLETION = "completion of "
_LINE = re.compile(r"\bline (\d+)")


class Unfit(Exception):  # noqa: N818 -- becomes the answer
    """The kernel does something that no statement of the IR says."""


class Places:
    """Sites by number from 1 on: those with the same text on the same line are one place."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = sites
        self.by_text: dict[tuple[int, str], int] = {}
        self.spans: list[Span] = [UNKNOWN_SPAN]
        self.texts: list[str] = [""]
        for s in sites:
            if (s.span.line, s.text) not in self.by_text:
                self.by_text[s.span.line, s.text] = len(self.spans)
                self.spans.append(s.span)
                self.texts.append(s.text)

    def number(self, site: int) -> int:
        """The number of a site's place, 0 for none."""
        if site < 0:
            return 0
        s = self.sites[site]
        return self.by_text[s.span.line, s.text]

    def numbered(self, step: Step) -> Step:
        """A witness's step with its place for a line."""
        text = step.op.removeprefix(_COMPLETION)
        return replace(step, span=Span(step.span.file, self.by_text.get((step.span.line, text), 0)))

    def span(self, number: int) -> Span:
        return self.spans[number] if 0 <= number < len(self.spans) else UNKNOWN_SPAN

    def step(self, step: Step) -> Step:
        """A simulated step on the source's own lines, in its words."""
        number = step.span.line
        if not 0 < number < len(self.texts):
            return replace(step, span=UNKNOWN_SPAN)
        start = _COMPLETION if step.op.startswith(_COMPLETION) else ""
        return replace(step, span=self.spans[number], op=start + self.texts[number])

    def blocked(self, b: Blocked) -> Blocked:
        return replace(b, span=self.span(b.span.line))

    def text(self, message: str) -> str:
        """A message with the source's own lines."""
        return _LINE.sub(lambda m: f"line {self.span(int(m[1])).line or m[1]}", message)
