"""What became of a compiled function: its kernels, and what was left to torch, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Region:
    """One group of nodes that a kernel computes; ``status``: what was proved, ``notes``: what came later.

    ``worth``: what it may gain at best, as a part of its graph's time; ``late``: the same where it was not
    tried because its proof was not there in time; ``untried``: because the time for trials was over.
    ``saved``: microseconds that its graph gains by it, as timed in its contexts.
    """

    name: str
    kind: str
    operations: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, str]
    status: str = ""
    refused: str = ""
    notes: list[str] = field(default_factory=list)
    worth: float = 0.0
    late: float = 0.0
    untried: float = 0.0
    saved: float = 0.0

    @property
    def missed(self) -> float:
        """What it may gain, where it was not tried for want of time."""
        return self.late or self.untried

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def refuse(self, sizes: Mapping[str, int], reason: str) -> None:
        """Remembers that the kernel was not run for some sizes."""
        shown = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        self.note(f"left to torch for {shown}: {reason}")

    def __str__(self) -> str:
        sizes = ", ".join(f"{n} = {v}" for n, v in self.sizes.items())
        lines = [f"{self.kind} {self.name} ({sizes}): {self.refused or self.status}"]
        lines.append(f"  {', '.join(self.operations)}")
        lines.append(f"  reads {', '.join(self.inputs) or 'nothing'}; writes {', '.join(self.outputs)}")
        return "\n".join([*lines, *(f"  {n}" for n in self.notes)])


@dataclass
class GraphReport:
    """One graph: ``regions`` that are kernels, those ``refused`` by the gate, and the nodes ``left``.

    ``missed``: the candidates that were not tried for want of proofs or time. ``late``: of those, what
    workers are asked to prove for a later compilation, and what each may gain as a part of the graph's time.
    """

    regions: list[Region] = field(default_factory=list)
    refused: list[Region] = field(default_factory=list)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    late: list[tuple[Any, float]] = field(default_factory=list)
    missed: list[Any] = field(default_factory=list)

    @property
    def saved(self) -> float:
        """Microseconds that the graph gains by its kernels."""
        return sum(r.saved for r in self.regions)

    def __str__(self) -> str:
        lines = [f"{len(self.regions)} kernels"]
        lines += [str(r) for r in self.regions]
        if self.refused:
            lines.append(f"{len(self.refused)} refused, left to torch")
            lines += [str(r) for r in self.refused]
        counts = Counter((operation, reason) for _, operation, reason in self.left)
        if counts:
            lines.append(f"{len(self.left)} operations left to torch")
            lines += [f"  {o}{f' ({n} times)' if n > 1 else ''}: {why}" for (o, why), n in counts.items()]
        return "\n".join(lines)


@dataclass
class Report:
    """All graphs that a function was compiled to, forward and backward, in order."""

    graphs: list[GraphReport] = field(default_factory=list)

    @property
    def regions(self) -> list[Region]:
        return [r for g in self.graphs for r in g.regions]

    @property
    def refused(self) -> list[Region]:
        return [r for g in self.graphs for r in g.refused]

    @property
    def left(self) -> list[tuple[str, str, str]]:
        return [entry for g in self.graphs for entry in g.left]

    def __str__(self) -> str:
        return "\n".join(f"graph {k}: {g}" for k, g in enumerate(self.graphs))


__all__ = ["GraphReport", "Region", "Report"]
