"""Boxes of tensor maps that a kernel implies: what a launch file leaves out is taken from the bytes that
phases expect, and named as an assumption.

A box that follows from equations is one for which no other is right: with any other, the phase that announced
its bytes never ends, or two copies in flight overlap. A refutation under such boxes stands. Boxes that only
the layout suggests, and stores, whose bytes nobody announces, can serve a proof but not refute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from syncverify.base.diagnostics import Diagnostic, Mistake, Severity
from syncverify.base.reason import Cause, has
from syncverify.base.source import Span
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.symbolic_launch import open_sizes
from syncverify.frontends.ptx.launch.tensormap_box_run import BoxFindings, ByteCountRun
from syncverify.frontends.ptx.launch.tensormap_box_solve import UNIT, Doubt, Solution, Solved, solve
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.ir.expr import Expr, Var, evaluate, names
from syncverify.model.events import LaneSplit

#: A map that is a parameter without a name in the source.
_BY_NUMBER = re.compile(r"param (\d+) \([^)]*\)")
#: Numbers tried for sizes without one, in two launches that share none where the facts allow it.
_GUESSES = ((1024, 256, 64, 4096, 16, 8, 4, 2, 1, 3), (512, 128, 2048, 32, 8192, 6, 10, 5, 2, 1))
MOST_RESTARTS = 64
#: Launches that one kernel is run in, and answers to questions about data that are tried in one of them.
MOST_LAUNCHES, MOST_ANSWERS = 8, 4


@dataclass(frozen=True, slots=True)
class Box:
    """A box assumed; see ``tensormap_box_solve.Solved``. ``span``: of the announcement or the store."""

    name: str
    bytes: int
    span: Span
    forced: bool
    most: bool

    def text(self, file: str) -> str:
        """The assumption, as reports list it."""
        name = _BY_NUMBER.sub(r"\1", self.name).removeprefix("tensor map ")
        size = f"box of tensor map {name} is {'at most ' if self.most else ''}{self.bytes} bytes"
        line = f"line {self.span.line}" + (f" of {self.span.file}" if self.span.file != file else "")
        if self.most:
            return f"{size}: what is put at its source, {line}"
        return f"{size}: from expect_tx, {line}" + ("" if self.forced else ", and the layout")


@dataclass(frozen=True, slots=True)
class Boxes:
    """What a kernel implies, as far as it was run: boxes by the maps' names, and announcements that no boxes
    fit together, by their places. ``doubts``: what may be wrong with announcements whose boxes stay open."""

    known: Mapping[str, Box] = field(default_factory=dict)
    conflicts: tuple[tuple[Span, Span], ...] = ()
    doubts: tuple[Diagnostic, ...] = ()

    def facts(self, least: bool = False) -> dict[str, MapFacts]:
        """By the maps' names; ``least``: with the smallest box where only the most is known."""
        return {
            b.name: MapFacts(b.name, None, None, 0, UNIT if least and b.most else b.bytes)
            for b in self.known.values()
        }

    def assumptions(self, file: str) -> list[str]:
        return [b.text(file) for b in self.known.values()]

    def unsure(self, used: Iterable[str]) -> list[Box]:
        """Those among the maps used that cannot serve a refutation."""
        return [self.known[n] for n in dict.fromkeys(used) if n in self.known and not self.known[n].forced]

    def contradiction(self) -> Diagnostic | None:
        """Announcements that no boxes fit together, as a finding."""
        if not self.conflicts:
            return None
        a, b = self.conflicts[0]
        if a == b:
            return Diagnostic("SV203", Severity.ERROR, "no box fits the bytes that this phase expects", b)
        text = f"no box fits both the bytes expected here and those expected at line {a.line}"
        return Diagnostic("SV203", Severity.ERROR, text, b)


@dataclass(slots=True)
class InferredBoxes:
    """The boxes of a kernel under check: what one attempt learns serves the next. ``launches``: those run."""

    latest: Boxes = field(default_factory=Boxes)
    launches: int = 0

    def learn(
        self, facts: PtxFacts, program: Program, launch_of: Callable[[PtxFacts], Launch], cluster: int = 0
    ) -> None:
        """Runs a cluster in the launch of the facts; for open sizes, in two launches that must agree. What is
        known already stays as it is."""
        if self.launches >= MOST_LAUNCHES:
            return
        sizes = _open(facts, program)
        found: list[Mapping[str, Box]] = []
        torn: list[tuple[Span, Span]] = []
        doubts = self.latest.doubts
        for bound in _instances(facts, sizes) if sizes else [facts]:
            self.launches += 1
            boxes, conflicts, open_ = _launched(program, launch_of(bound), cluster)
            torn += conflicts if not sizes else []
            doubts = doubts or open_
            found.append(boxes)
            if not boxes:
                break
        first, *others = found or [{}]
        agreed = {name: box for name, box in first.items() if all(_agrees(box, o.get(name)) for o in others)}
        before = self.latest
        more = {name: box for name, box in agreed.items() if name not in before.known}
        every = tuple(dict.fromkeys((*before.conflicts, *torn)))
        self.latest = Boxes({**before.known, **more}, every, doubts)


def lacks_box(reason: str) -> bool:
    """Whether a reason says that a tensor map's box is missing."""
    return has(reason, Cause.MISSING_BOX)


def copies_tensors(program: Program) -> bool:
    return any(map(_is_tensor_copy, program.body))


def _is_tensor_copy(i: Instr) -> bool:
    return i.op == "cp" and "tensor" in i.mods and "prefetch" not in i.mods


class _OpenMaps(dict[str, MapFacts]):
    """The given maps; every other has a box of the least size, that of which nothing is known."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or MapFacts(name, None, None, 0, UNIT)


def _agrees(box: Box, other: Box | None) -> bool:
    return other is not None and (box.bytes, box.most) == (other.bytes, other.most)


# ---------------------------------------------------------------- launches


def _open(facts: PtxFacts, program: Program) -> list[str]:
    """The sizes that need a number: those that the kernel's synchronization may depend on, the grid's, and
    all that is too short for a pointer."""
    grid = [name for extent in facts.grid if isinstance(extent, Expr) for name in sorted(names(extent))]
    short = [name for name, (_, high) in facts.symbols().items() if high < 1 << 32]
    return list(dict.fromkeys((*open_sizes(facts, program), *grid, *short)))


def _instances(facts: PtxFacts, sizes: Iterable[str]) -> Iterator[PtxFacts]:
    """The facts with numbers for the sizes; fewer than two if the facts allow none of those tried."""
    constraints = facts.constraints()
    extents = zip(facts.grid, facts.cluster or (1, 1, 1), strict=True)
    across = {e.name: size for e, size in extents if isinstance(e, Var)}
    for guesses in _GUESSES:
        bound: dict[str, int] = {}
        for name in sizes:
            tried = (across[name], *guesses) if name in across else guesses
            value = next((v for v in tried if _allowed(constraints, {**bound, name: v}, name)), None)
            if value is None:
                return
            bound[name] = value
        yield facts.bind(bound)


def _allowed(constraints: Iterable[Expr], values: Mapping[str, int], name: str) -> bool:
    asked = [c for c in constraints if name in names(c) and names(c) <= values.keys()]
    try:
        return all(evaluate(c, values) for c in asked)
    except ZeroDivisionError:
        return False


def _launched(
    program: Program, launch: Launch, cluster: int
) -> tuple[dict[str, Box], list[tuple[Span, Span]], tuple[Diagnostic, ...]]:
    """Boxes by name, contradictory announcements, and doubtful ones, in one launch of numbers."""
    boxes: dict[str, Box] = {}
    conflicts: list[tuple[Span, Span]] = []
    doubts: tuple[Diagnostic, ...] = ()
    answers: list[Mapping[Any, int]] = [launch.answers]
    for _ in range(MOST_ANSWERS):
        if not answers:
            break
        taken = answers.pop()
        first = PtxSystem.fresh(
            program,
            replace(launch, maps=_OpenMaps(launch.maps), answers=taken),
            None if launch.grid is None else cluster,
        )
        system, found = _run(first)
        if found is None:
            break
        solution = solve(found, [lo for lo, _, _ in system.tables.layout.names])
        own, mine = _named(system, found, solution)
        for name, box in own.items():
            boxes.setdefault(name, box)
        doubts = doubts or tuple(_doubt(system, d) for d in solution.doubts[:1])
        conflicts += mine if len(taken) == len(launch.answers) else []
        question = next(iter(system.tables.asked), None)
        if question is not None and found.stuck:
            answers += [{**taken, question: 0}, {**taken, question: 1}]
    return boxes, conflicts, doubts


def _run(system: PtxSystem) -> tuple[PtxSystem, BoxFindings | None]:
    copies = sum(map(_is_tensor_copy, system.program.body))
    for _ in range(MOST_RESTARTS):
        try:
            return system, ByteCountRun(system, _is_open(system), copies).run()
        except LaneSplit as split:
            system = system.refined(split)
    return system, None


def _is_open(system: PtxSystem) -> Callable[[int], bool]:
    facts = system.tables.facts_of

    def is_open(number: int) -> bool:
        known = facts(number)
        return known.box is None and known.bytes == UNIT

    return is_open


def _named(
    system: PtxSystem, found: BoxFindings, solution: Solution
) -> tuple[dict[str, Box], list[tuple[Span, Span]]]:
    """A run's boxes by the maps' names, one name's maps having one box; and its contradictions."""
    sites = system.info.sites
    out: dict[str, Box] = {}
    torn: set[str] = set()
    for number in found.sites:
        name = system.tables.map_names[number]
        s = solution.boxes.get(number)
        if s is None or (name in out and (out[name].bytes, out[name].most) != (s.bytes, s.most)):
            torn.add(name)
        else:
            out[name] = _box(name, s, sites[s.site].span)
    conflicts = [] if found.unsure else [(sites[a].span, sites[b].span) for a, b in solution.conflicts]
    return {n: b for n, b in out.items() if n not in torn}, conflicts


def _doubt(system: PtxSystem, d: Doubt) -> Diagnostic:
    """An announcement that no boxes are known to fit, as a warning."""
    maps = " and ".join(dict.fromkeys(system.tables.map_names[m].removeprefix("tensor map ") for m in d.maps))
    text = f"{d.bytes} bytes are announced here, and the copies by {maps} have room for {d.room} in a phase"
    fix = f"announce {d.room} bytes, if the boxes fill their places; else give the boxes in a launch file"
    site = system.info.sites[d.site]
    return Diagnostic("SV203", Severity.WARNING, text, site.span, fix=fix, cause=Mistake.BYTES)


def _box(name: str, s: Solved, span: Span) -> Box:
    return Box(name, s.bytes, span, s.forced, s.most)


__all__ = ["Box", "Boxes", "InferredBoxes", "copies_tensors", "lacks_box"]
