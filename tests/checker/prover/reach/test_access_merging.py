"""Reads of a group of wgmmas, and stores in a row, as one access: what is met is the same, less is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.happens_before.access_merging import commit_pending_reads
from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.end_of_run import check_end
from syncverify.checker.happens_before.handlers.phases import complete_async
from syncverify.checker.happens_before.run import Run, RunOptions, TooManyEvents, Unmodelled
from syncverify.checker.happens_before.shadow import Record, Segment, Shadow
from syncverify.checker.happens_before.vector_clocks import Columns
from syncverify.checker.prover.reach.state.canonical_state import sites
from syncverify.checker.prover.reach.state.snapshot import copy_run
from syncverify.checker.prover.reach.threshold_abstraction import ThresholdAbstraction
from syncverify.frontends.ir.systems import systems
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build
from syncverify.model.events import GLOBAL_MEMORY, Footprint, System
from syncverify.model.proxies import Access

CORPUS = Path(__file__).parents[4] / "corpus"
FILES = sorted(f for f in CORPUS.rglob("*.syncir") if "wgmma" in f.read_text() or "stmatrix" in f.read_text())


def text_of(**more: object) -> str:
    schedule = Schedule(64, 64, consumers=1, stages=2, store="tma", arrive="warpgroup", **more)  # type: ignore[arg-type]
    return print_kernel(build(product("bf16", "KK"), schedule, Policy.PRACTICAL, 2))


def started(system: System, joins: bool) -> Run:
    classes = len(system.info.classes)
    columns = Columns(classes, 40 * classes + 256)
    options = RunOptions(merges_equivalent_accesses=joins)
    run = Run(system, HANDLERS, complete_async, columns, 60_000, options)
    return run


def met(system: System, joins: bool) -> tuple[set[tuple[object, ...]], int]:
    """All that a run meets, warnings of strict mode too, and how many pieces its memories are in."""
    run = started(system, joins)
    try:
        run.run()
        if not run.hung:
            check_end(run)
    except (TooManyEvents, Unmodelled):
        pass
    return set(run.failures), sum(len(s._segments) for s in run.memory.values())


def kernels(file: Path) -> Iterator[Kernel]:
    yield from parse(file.read_text(), file.name)


def values(kernel: Kernel) -> dict[str, int]:
    return {p.name: p.default if p.default is not None else 1 for p in kernel.params}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_same_is_met(file: Path) -> None:
    for kernel in kernels(file):
        for system in systems(kernel, values(kernel)):
            joined, _ = met(system, True)
        for system in systems(kernel, values(kernel)):
            assert met(system, False)[0] == joined


#: Each breaks what orders a read of a product, or a store, and what comes after it.
BROKEN = [
    ("wgmma.wait 0", "wgmma.wait 1"),
    ("fence.proxy.async", ""),
    ("bulk.wait_group.read 0", ""),
]


def lines_without(text: str, words: str, instead: str) -> Iterator[str]:
    """The text with one of the lines that hold some words changed or left out."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if words in line:
            new = [line.replace(words, instead)] if instead else []
            yield "\n".join([*lines[:i], *new, *lines[i + 1 :]]) + "\n"


def broken() -> list[str]:
    text = text_of(persistent=True)
    return [text, *(t for words, instead in BROKEN for t in lines_without(text, words, instead))]


def test_the_same_is_met_where_products_are_broken() -> None:
    failing = 0
    for text in broken():
        (kernel,) = parse(text, "matmul")
        sizes = values(kernel) | {"M": 256, "N": 128, "K": 320}
        pairs = zip(systems(kernel, sizes), systems(kernel, sizes), strict=True)
        for one, other in pairs:
            joined, pieces = met(one, True)
            plain, more = met(other, False)
            assert joined == plain
            assert pieces <= more
            failing += bool(joined)
    assert failing >= 2


def held(s: Segment) -> tuple[object, ...]:
    """What tells a segment from others."""
    return s.lo, s.hi, s.write and s.write.key, {(*r.key, r.time, r.tag_value) for r in s.reads.values()}


def on_record(text: str, at_once: bool) -> list[object]:
    """What memories hold after each commit. ``at_once``: reads are entered with each product."""
    (kernel,) = parse(text, "matmul")
    (system, *_) = systems(kernel, values(kernel) | {"M": 128, "N": 128, "K": 320})
    run, found = started(system, True), list[object]()
    while run.ready:
        t = run.ready.popleft()
        while not t.done and not t.blocked:
            run.step(t)
            if at_once:
                commit_pending_reads(run)
            if not any(t.products for t in run.threads):
                assert not run.late
                found.append([held(s) for _, shadow in sorted(run.memory.items()) for s in shadow._segments])
    return found


def test_reads_that_are_entered_as_one_are_those_that_are_joined() -> None:
    text = text_of(persistent=True)
    assert on_record(text, False) == on_record(text, True)


def test_who_looks_sees_the_reads_of_a_group_that_is_not_committed() -> None:
    (kernel,) = parse(text_of(), "matmul")
    (system, *_) = systems(kernel, values(kernel))
    run = started(system, True)
    while not run.late:
        t = run.ready.popleft()
        while not t.done and not t.blocked and not run.late:
            run.step(t)
        if not t.done and not t.blocked:
            run.ready.appendleft(t)
    (cls,) = run.late
    t = run.threads[cls]
    kept = {id(r) for s in run.memory[t.info.cta]._segments for r in s.reads.values()}
    assert t.products and kept.isdisjoint(map(id, t.products))
    kept = {id(r) for s in run.shadow(t.info.cta)._segments for r in s.reads.values()}
    assert kept.issuperset(map(id, t.products)) and not run.late


def test_neighbours_that_hold_the_same_become_one() -> None:
    shadow, plain = Shadow(), Record(Access.ASYNC_WRITE, 0, 1, 0, 0)
    shadow.write(0, 64, plain)
    slices = [Record(Access.MMA_READ, 1, 2 + i, 1 + i, 0, tag=7, tag_value=1 + i) for i in range(4)]
    for i, r in enumerate(slices):
        shadow.read(16 * i, 16 * i + 16, r)
    other = Record(Access.MMA_READ, 2, 9, 9, 0, tag=8, tag_value=1)
    shadow.read(48, 80, other)
    joined = Record(Access.MMA_READ, 1, 5, 10, 0, tag=7, tag_value=4)
    for i, r in enumerate(slices):
        shadow.put(16 * i, 16 * i + 16, r, joined)
    shadow.merge(0, 64)
    held = [(s.lo, s.hi, s.write, set(s.reads.values())) for s in shadow._segments]
    assert held == [(0, 48, plain, {joined}), (48, 64, plain, {joined, other}), (64, 80, None, {other})]
    assert shadow._los == [0, 48, 64]


def test_runs_that_part_join_apart() -> None:
    """What one copy joins leaves the other's records as they are."""
    (kernel,) = parse(text_of(), "matmul")
    (system, *_) = systems(kernel, values(kernel))
    run = started(system, True)
    while not any(t.products for t in run.threads):
        t = run.ready.popleft()
        while not t.done and not t.blocked and not t.products:
            run.step(t)
        if not t.done and not t.blocked:
            run.ready.appendleft(t)
    copy = copy_run(run)
    open_ = [(r.time, r.tag_value) for t in copy.threads for r in t.products]
    run.run()
    assert [(r.time, r.tag_value) for t in copy.threads for r in t.products] == open_
    copy.run()
    assert set(copy.failures) == set(run.failures)


def test_where_parts_are_is_kept_where_it_matters() -> None:
    """Stores at other places are distinguished, and reads once something was met of their place."""
    (kernel,) = parse(text_of(), "matmul")
    (system, *_) = systems(kernel, values(kernel))
    run = started(system, True)
    parts = [Record(Access.MMA_READ, 0, 1, i, 10 + i, tag=1, tag_value=1) for i in range(2)]
    joined = Record(Access.MMA_READ, 0, 1, 2, 10, tag=1, tag_value=1, parts=tuple(parts))
    store = Record(Access.GENERIC_WRITE, 0, 1, 2, 10, parts=tuple(parts))
    run.info.footprints.extend(Footprint(0, ((0, 8),)) for _ in range(3))
    assert sites(joined) == ((0, 10), (1, 11)) and sites(parts[0]) == 10
    assert ThresholdAbstraction(run).site_is_irrelevant(joined) and not ThresholdAbstraction(
        run
    ).site_is_irrelevant(store)
    run.judged.add((-12, 3, False))
    assert not ThresholdAbstraction(run).site_is_irrelevant(joined) and ThresholdAbstraction(
        run
    ).site_is_irrelevant(parts[0])
    run.info.footprints[0] = Footprint(GLOBAL_MEMORY, ((0, 8),))
    assert not ThresholdAbstraction(run).site_is_irrelevant(parts[0])
