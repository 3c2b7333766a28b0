"""Some 3,000 small kernels of PTX, right ones and wrong twins, by the mechanism that they use.

A file ``*.kernels`` holds groups. A group begins with one kernel in full; its twins are edits of that text,
by its line numbers:

    # kernel: bulk load
    # right: as it should be {"block": [64], "grid": [1]}
    .version 8.6
    ...
    # wrong: parity 1
    -45 mbarrier.try_wait.parity.shared::cta.b64 %p30, [%r2], 0;
    +45 mbarrier.try_wait.parity.shared::cta.b64 %p30, [%r2], 1;

``-N`` takes line N away, which is as it says; ``+N`` puts a line before line N. The launch facts are those of
the first, where none are given. Labels were decided by the PTX ISA and by the second reader, before the
checker was asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LABEL = re.compile(r"# (right|wrong): ([^{]*?)\s*(\{.*\})?$")
_EDIT = re.compile(r"([-+])(\d+) (.*)$")


@dataclass
class Small:
    """A kernel: its name, whether it is right, its text and launch facts."""

    group: str
    name: str
    right: bool
    facts: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    edits: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        lines: list[str] = []
        gone = {n: text for sign, n, text in self.edits if sign == "-"}
        for n, line in enumerate([*self.lines, ""], 1):
            lines += [text for sign, at, text in self.edits if sign == "+" and at == n]
            if n not in gone:
                lines.append(line)
            elif gone[n] != line:
                raise ValueError(f"{self.group}, {self.name}: line {n} is {line!r}, not {gone[n]!r}")
        return "\n".join(lines)


def read(path: Path) -> Iterator[Small]:
    """The kernels of a file."""
    group, first, now = "", None, None
    for line in path.read_text().splitlines():
        label = _LABEL.fullmatch(line)
        if line.startswith("# kernel: "):
            group, first = line.removeprefix("# kernel: "), None
        elif label is not None:
            if now is not None:
                yield now
            facts = json.loads(label[3]) if label[3] else first.facts if first is not None else {}
            now = Small(group, label[2], label[1] == "right", facts)
            if first is None:
                first = now
            else:
                now.lines = first.lines
        elif now is None:
            raise ValueError(f"{path.name}: {line!r} before a kernel")
        elif now is first:
            now.lines.append(line)
        else:
            edit = _EDIT.fullmatch(line)
            if edit is None:
                raise ValueError(f"{path.name}: {line!r} is no edit")
            now.edits.append((edit[1], int(edit[2]), edit[3]))
    if now is not None:
        yield now
