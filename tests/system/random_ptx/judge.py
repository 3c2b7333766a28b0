"""Both sides on one program: the checker's verdict, and what executions of the text show."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

import syncverify
from syncverify.base.deadline import Guard, OutOfBudgetError, guarded
from syncverify.base.diagnostics import Replayed
from syncverify.base.reason import Cause, has
from syncverify.base.source import InputError
from syncverify.simulate.ptx import Buffer, CannotExecute, Harm, Kind, Launch, buffer, sample
from syncverify.simulate.ptx.execute import run_loaded
from syncverify.simulate.ptx.launch import AnyMap
from syncverify.simulate.ptx.loading import load
from syncverify.simulate.ptx.schedules import Parting
from syncverify.simulate.ptx.syntax import parse
from tests.system.random_ptx.counted_loops import Loop, all_counted, counted, loops
from tests.system.random_ptx.writer import Held, Mapped, Open, Program

#: Executions of a program that is proved; more where the checker refutes, fewer where it says nothing.
SEEDS, MORE, FEW = 10, 120, 4
STEPS = 60_000
#: Seconds after which the executions of one program say no more.
SECONDS = 20.0
_BOX = re.compile(r"box of tensor map (\d+) is (\d+) bytes")
#: The chance that a strong load reads an older value, where it may.
LATENESS = 0.4
#: What the input holds where counts of turns by other words are too long.
FEW_TURNS = ((0, 1, 2, 3, 4, 5, 6, 7), (7, 3, 5, 1, 6, 2, 4, 0), (2, 2, 2, 2), (0,))


@dataclass
class Judged:
    """``verdict``: proved, refuted, unknown, or error. ``kind``: agree, wrong proof, no harm found, ...

    Of proofs whose executions do not end: ``assumed end`` if the report names loops that it takes to end,
    ``too long`` if a counter ends each loop and executions with small words do no harm, else ``no end``.
    """

    verdict: str
    reason: str
    harm: Harm | None
    kind: str


def verdict(p: Program, seconds: float = 20.0) -> tuple[str, str]:
    """The checker's verdict on a program with its launch facts, and its first finding or reason.

    ``not replayed``: it would be refuted, and the replay sees no harm. ``unfinished``: executions that have
    to show a finding, or to contradict a proof, did not end.
    """
    found = _checked(p, seconds)
    return found.verdict, found.shown


@dataclass(frozen=True)
class Checked:
    """A verdict and its first finding or reason. ``seen``: the replay has seen the harm; ``told``: lines of
    contested points and of places that are assumed to be inside; ``warned``: of contested points alone;
    ``warns``: of words in no certain order, and of blocks that store to one place.
    ``ends``: lines of loops that are assumed to end; ``unread``: those of accesses to global memory of which
    the report assumes that nobody reads what others write; ``boxes``: bytes that the report assumes of tensor
    maps, by their parameters."""

    verdict: str
    shown: str
    seen: bool = False
    told: frozenset[int] = frozenset()
    warned: frozenset[int] = frozenset()
    warns: bool = False
    ends: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()
    boxes: Mapping[int, int] = field(default_factory=dict)


def _checked(p: Program, seconds: float) -> Checked:
    scope: Literal["all", "exact"] = "all" if p.is_open else "exact"
    try:
        (report,) = syncverify.check(
            p.text, facts={"kernel": {"k": p.facts}}, scope=scope, timeout=seconds, advice=False
        )
    except InputError as e:
        return Checked("error", str(e))
    found = report.diagnostics[0] if report.diagnostics else None
    shown = (
        f"{found.rule} line {found.span.line}: {found.message}"
        if found is not None
        else str(report.reason or "")
    )
    if has(report.reason, Cause.UNFINISHED):
        return Checked("unfinished", shown)
    if has(report.reason, Cause.NOT_REPLAYED):
        return Checked("not replayed", shown)
    seen = report.replay is not None and report.replay.outcome is Replayed.REPRODUCED
    contested = frozenset(d.span.line for d in report.diagnostics if d.contested)
    contested |= {int(n) for a in report.assumptions for n in re.findall(r"line (\d+): where data says", a)}
    warned = contested
    warns = any(d.rule in ("SV110", "SV111", "SV112") for d in report.diagnostics)
    warns |= any("which stays does not matter" in a for a in report.assumptions)
    ends = frozenset(int(n) for a in report.assumptions for n in re.findall(r"line (\d+): this loop ends", a))
    pairs = [n for a in report.assumptions if "no other" in a for n in re.findall(r"line (\d+)", a)]
    unread = frozenset(map(int, pairs))
    boxes = {int(m[1]): int(m[2]) for a in report.assumptions if (m := _BOX.match(a))}
    return Checked(str(report.verdict), shown, seen, contested, warned, warns, ends, unread, boxes)


def launch(p: Program, number: int = 0) -> Launch:
    """A launch; ``number`` draws the sizes that are open, and what the input holds."""
    words = np.arange(1 << 13, dtype=np.uint32) * np.uint32(2654435761)
    if number % 3:  # words that are all even, or mostly zero
        words = words * np.uint32(2) if number % 3 == 1 else words // np.uint32(1 << 30)
    if p.by_data and number % 4 == 3:  # one word everywhere
        words = words * np.uint32(0) + np.uint32(number % 5)
    if p.contents:
        words = np.resize(np.array(p.contents[number % len(p.contents)], np.uint32), 1 << 13)
    draw = random.Random(number)
    params: list[int | Buffer | AnyMap] = []
    for i, given in enumerate(p.params):
        if given is None:
            params.append(buffer(words if i == 0 else np.zeros(1 << 14, np.uint32)))
        elif isinstance(given, Mapped):
            params.append(AnyMap(given.bytes))
        elif isinstance(given, Held):
            params.append(buffer(np.array([given.word, 0, 0, 0], np.uint32)))
        else:
            params.append(draw.choice(given.values) if isinstance(given, Open) else given)
    blocks, one = draw.choice(p.grids) if p.grids else p.blocks or p.cluster, (1, 1)
    watches = {"shared", "global"} if p.blocks else {"shared", "maps"}
    return Launch(
        block=(p.block, *one), grid=(blocks, *one), cluster=(p.cluster, *one), params=params,
        watches=frozenset(watches),
    )  # fmt: skip


def executed(
    p: Program,
    seeds: range,
    told: frozenset[int] = frozenset(),
    warned: frozenset[int] = frozenset(),
) -> tuple[Harm | None, str]:
    """The first harm among executions; 'limit' if one did not end, 'cannot' for what is not known.

    ``told``: lines at which accesses are taken to stay inside their array; in launches where one does not
    only harm at these lines counts, and as the last. ``warned``: lines of contested points of a report. Harm
    after what the reader warns of at such a line comes last as well: it is 'warned' if no other is seen.
    """
    try:
        with guarded(Guard(SECONDS)):
            return _executed(p, seeds, told, warned)
    except OutOfBudgetError:
        return None, "limit"


def _executed(
    p: Program, seeds: range, told: frozenset[int], warned: frozenset[int]
) -> tuple[Harm | None, str]:
    limited, at_these, after = 0, None, None
    ends = time.monotonic() + SECONDS
    module = parse(p.text)
    parts = [range(n, n + 2) for n in seeds[::2]] if p.is_open else [seeds]
    try:
        for part in parts:
            for r in sample(module, "k", launch(p, part.start // 2 if p.is_open else 0), part, limit=STEPS):
                if r.harm is not None and _told(r.harm, told):
                    at_these = at_these or r.harm
                elif r.harm is not None and any(line in warned for line, _ in r.warnings):
                    after = after or r.harm
                elif r.harm is not None and not _leaves(p, part.start // 2, told):
                    return r.harm, "harm"
                limited += r.limit
                if limited > 1 or time.monotonic() > ends:
                    return None, "limit"
    except CannotExecute as e:
        return None, f"cannot: {e}"
    if at_these is not None:
        return at_these, "harm"
    if after is not None:
        return after, "warned"
    return None, "limit" if limited else "none"


def _leaves(p: Program, number: int, told: frozenset[int]) -> bool:
    """Whether an access of these lines leaves its array in a launch that has gaps between arrays."""
    if not told:
        return False
    return any(harm.where.line in told for harm in _outside(p, number if p.is_open else 0))


def _outside(p: Program, number: int) -> Iterator[Harm]:
    """The accesses that leave their variable in a launch that has gaps between variables."""
    apart = replace(launch(p, number), apart=True)
    found = (r.harm for r in sample(parse(p.text), "k", apart, range(6), limit=STEPS))
    return (harm for harm in found if harm is not None and harm.kind is Kind.OUTSIDE)


def _beside(p: Program) -> Harm | None:
    """An access that leaves its variable for another one, if executions show one."""
    try:
        with guarded(Guard(SECONDS)):
            numbers = range(6 if p.is_open else 1)
            return next((harm for number in numbers for harm in _outside(p, number)), None)
    except OutOfBudgetError:
        return None


def differs(p: Program, executions: int = 24) -> str:
    """How executions of one launch end with different buffers: lanes part, strong loads read older values."""
    try:
        with guarded(Guard(SECONDS)):
            return _differs(p, executions)
    except OutOfBudgetError:
        return ""


def _differs(p: Program, executions: int) -> str:
    module = parse(p.text)
    words = re.compile(r"\b(ld|st|atom|red)\b.*shared")
    lines = frozenset(n for n, line in enumerate(p.text.splitlines(), 1) if words.search(line))
    given = launch(p)
    loaded = load(module, "k", given, 0)
    first = None
    for seed in range(executions):
        r = run_loaded(loaded, given, Parting(seed, lines, LATENESS * (seed % 3 != 0)), STEPS, 0)
        if r.harm is not None:
            return f"harm where loads read older values: {r.harm}"
        ended = [data.tobytes() for _, data in r.buffers]
        if r.limit:
            continue
        if first is None:
            first = ended
        elif ended != first:
            return "executions of one launch end with different buffers"
    return ""


def judge(p: Program, seconds: float = 20.0) -> Judged:
    found = _checked(p, seconds)
    said, why, contested = found.verdict, found.shown, found.told
    if said == "error":
        return Judged(said, why, None, "error")
    inferred = not p.gives_boxes and any(isinstance(x, Mapped) for x in p.params)
    # where boxes are inferred, the replay has those
    if found.seen and not inferred and not p.of_host:
        return Judged(said, why, None, "agree")
    seeds = FEW if said in ("unknown", "unfinished") else SEEDS
    given = (contested, found.warned) if said == "proved" else (frozenset[int](), frozenset[int]())
    harm, how = executed(p, range(seeds), *given)
    if said == "not replayed" and p.outcome and how == "none" and differs(p):
        return Judged(said, why, None, "unknown, ends differ")  # strong accesses in no order are no harm
    if said == "proved" and how == "limit" and not p.contents and all_counted(p.text):
        harm, how = executed(replace(p, contents=FEW_TURNS), range(SEEDS), *given)
        how = "long" if how == "none" else how
    if said in ("refuted", "not replayed") and harm is None and how == "none":
        harm, how = executed(p, range(SEEDS, MORE))
    if said == "refuted" and how == "none":
        harm = _beside(p)
    if how.startswith("cannot"):
        kind = how
    elif said == "proved" and harm is not None and harm.space == "global" and harm.where.line in found.unread:
        kind = "contested"  # the report assumes by name that it does not happen
    elif harm is not None and harm.space == "global" and harm.kind not in _followed(p):
        kind = "outside of global memory"  # which the checker does not follow
    elif said == "proved" and harm is not None and _told(harm, contested):
        kind = "contested"  # a warning or an assumption tells of it
    elif said == "proved" and how == "warned":
        kind = "warned"  # it follows from what both sides warn of at one line
    elif said == "proved" and harm is not None and (other := _with_boxes(p, found.boxes)) != p:
        harmed, how = executed(other, range(SEEDS))
        kind = "other box" if how == "none" else "wrong proof"  # the report assumes by name another box
        harm = harmed or harm
    elif said == "proved" and p.outcome and how == "none" and not found.warns and (apart := differs(p)):
        kind, why = "order of a lock" if ".cas." in p.text else "ends differ", apart
    elif said == "proved" and harm is not None and turns_alone(p.text, harm, found.ends):
        kind = "assumed end"
    elif said == "proved":
        left = "assumed end" if found.ends else "too long" if how == "long" else "no end"
        kind = "agree" if how == "none" else "wrong proof" if harm is not None else left
    elif said == "not replayed":
        kind = "harm not replayed" if harm is not None else "not replayed, none"
    elif said == "refuted":
        kind = "agree" if harm is not None else "no end" if how == "limit" else "no harm found"
    else:
        kind = f"{said}, harm" if harm is not None else f"{said}, none"
    return Judged(said, why, harm, kind)


def _with_boxes(p: Program, boxes: Mapping[int, int]) -> Program:
    """The program launched with tensor maps that have these boxes."""
    given = enumerate(p.params)
    return replace(
        p, params=[Mapped(boxes.get(n, x.bytes)) if isinstance(x, Mapped) else x for n, x in given]
    )


def _followed(p: Program) -> tuple[Kind, ...]:
    """The kinds of harm in global memory that the checker looks for: races where blocks share memory."""
    return (Kind.STALE, Kind.RACE) if p.blocks else (Kind.STALE,)


_WAITS = re.compile(r"\b(ld|ldu|atom|mbarrier|bar|barrier|cp|fence|membar|griddepcontrol|nanosleep)\.")


def turns_alone(text: str, harm: Harm, ends: frozenset[int]) -> bool:
    """Whether threads hang in a loop that asks neither memory nor a barrier, of which the report assumes
    that it ends. ``ends``: lines of such loops. Loops inside of it have to end by a counter, or by name."""
    found = loops(text)
    if harm.kind is not Kind.HANG or found is None:
        return False
    lines = text.splitlines()

    def named(loop: Loop) -> bool:
        """Whether the report names the first instruction of a loop."""
        rest = range(loop[0] + 1, loop[1] + 1)
        return next((n + 1 for n in rest if not lines[n].strip().endswith(":")), 0) in ends

    def others_end(loop: Loop) -> bool:
        inside = (x for x in found if x != loop and loop[0] <= x[0] and x[1] <= loop[1])
        return all(named(x) or counted(text, x) for x in inside)

    return any(
        head + 1 <= harm.where.line <= back + 1
        and named((head, back))
        and others_end((head, back))
        and not any(_WAITS.search(x) for x in lines[head : back + 1])
        for head, back in found
    )


def _told(harm: Harm, lines: frozenset[int]) -> bool:
    """Whether the report of a proof speaks of such harm at its line."""
    said = ("outside", "aligned", "lanes that it needs")  # the last of masks that name lanes elsewhere
    told = harm.kind is Kind.UNDEFINED and any(x in harm.detail for x in said)
    return (harm.kind is Kind.STALE or told) and harm.where.line in lines


def shrunk(p: Program, kind: str, tries: int = 200) -> Program:
    """The program with lines left out, as long as both sides still disagree in the same way."""
    lines = p.text.splitlines()
    first = next(n for n, x in enumerate(lines) if "%warp, %thr" in x)
    size = max((len(lines) - first) // 2, 1)
    while size and tries > 0:
        at = first
        while at < len(lines) - 2 and tries > 0:
            less = lines[:at] + lines[min(at + size, len(lines) - 2) :]
            tries -= 1
            shorter = replace(p, text="\n".join(less) + "\n")
            try:
                same = judge(shorter).kind == kind
            except (InputError, ValueError):
                same = False
            if same:
                lines = less
            else:
                at += size
        size //= 2
    return replace(p, text="\n".join(lines) + "\n")
