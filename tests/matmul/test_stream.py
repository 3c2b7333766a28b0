"""Runs of blocks that begin and end anywhere inside tiles: right, proved, refuted where order is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, gelu, trace
from syncverify.gate import Program
from syncverify.gate.matmul import CompiledMatmul
from syncverify.gate.ptx_check import check_ptx
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int, Var
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.lower import launch_values
from syncverify.matmul.pipeline import build
from syncverify.matmul.split import SEMAPHORE, SUMS
from syncverify.passes.rewrite import Body, flat_map, walk
from tests.matmul.split_helpers import BF16, RNG, close, run

HALVES = Schedule(128, 64, stages=2, split_k=2, shares="any")
#: The same with one multiplying warpgroup, where mistakes are looked for at every size.
ONE = replace(HALVES, tile_m=64, consumers=1)
THIRDS = Schedule(128, 64, stages=2, store="tma", split_k=3, shares="any")


@pytest.mark.parametrize("sums", ["ordered", "any"])
@pytest.mark.parametrize("store", ["direct", "tma"])
@pytest.mark.parametrize(
    ("q", "m", "n", "k", "sms", "share"),
    [
        (2, 136, 72, 320, 8, 1), (2, 300, 72, 200, 2, 6), (3, 200, 72, 200, 4, 4), (4, 8, 8, 40, 4, 4),
        (4, 100, 64, 264, 4, 1),
    ],
)  # fmt: skip
def test_against_numpy(sums: str, store: str, q: int, m: int, n: int, k: int, sms: int, share: int) -> None:
    schedule = Schedule(128, 64, stages=2, split_k=q, shares="any", sums=sums, store=store)  # type: ignore[arg-type]
    got, want, values = run(product(), schedule, m, n, k, sms)
    close(got, want)
    assert values["share"] == share and values["blocks"] <= max(sms, q)
    # the next launch finds what this one found
    assert not got[SEMAPHORE].any()
    assert sums == "ordered" or not got[SUMS].any()


@pytest.mark.parametrize("store", ["direct", "tma"])
def test_one_group_in_flight(store: str) -> None:
    schedule = replace(HALVES, stages=3, pending=1, store=store)
    got, want, _ = run(product("bf16"), schedule, 256, 64, 448, 4)
    close(got, want)


def declared(body: Body, outer: frozenset[str] = frozenset()) -> None:
    """No register has the name of another that is there too."""
    here = outer
    for s in body:
        if isinstance(s, n.Let):
            assert s.name not in here, f"let {s.name} hides another"
            here |= {s.name}
        for inner in (getattr(s, "body", ()), getattr(s, "then", ()), getattr(s, "orelse", ())):
            declared(inner, here)


@pytest.mark.parametrize("pending", [0, 1])
@pytest.mark.parametrize("q", [2, 3])
@pytest.mark.parametrize("store", ["direct", "tma"])
def test_no_register_hides_another(store: str, q: int, pending: int) -> None:
    schedule = replace(HALVES, stages=3, split_k=q, pending=pending, store=store)
    declared(build(product("bf16"), schedule, vector=2).body)


@pytest.mark.parametrize("layout", ["KN", "MK", "MN"])
def test_other_layouts(layout: str) -> None:
    close(*run(product(layout=layout), THIRDS, 136, 72, 200, 6)[:2])


@pytest.mark.parametrize("store", ["direct", "tma"])
def test_tall_warpgroups_and_three_of_them(store: str) -> None:
    for tile, consumers in (((256, 64), 2), ((192, 64), 3)):
        schedule = Schedule(*tile, consumers=consumers, stages=2, split_k=2, shares="any", store=store)  # type: ignore[arg-type]
        close(*run(product(), schedule, 200, 64, 136, 2)[:2])


@pytest.mark.parametrize("store", ["direct", "tma"])
def test_the_epilogue_sees_whole_sums(store: str) -> None:
    def bias_gelu(acc: Any, bias: Any) -> Any:
        return gelu(acc + bias).cast("bf16")

    epilogue = trace(bias_gelu, {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))})
    bias = RNG.standard_normal(72).astype(BF16)
    problem = Problem("fused", "bf16", "KK", epilogue)
    schedule = replace(HALVES, store=store)  # type: ignore[arg-type]
    got, acc, _ = run(problem, schedule, 130, 72, 200, 4, bias=bias)
    (want,) = epilogue.reference({"acc": acc, "bias": bias})
    close(got, want.astype(np.float32))


@pytest.mark.parametrize("sums", ["ordered", "any"])
@pytest.mark.parametrize("store", ["direct", "tma"])
@pytest.mark.parametrize(
    ("q", "m", "n", "k", "sms", "share"), [(2, 300, 136, 264, 8, 2), (3, 200, 136, 200, 12, 1)]
)
def test_clusters_that_share_tiles(
    sums: str, store: str, q: int, m: int, n: int, k: int, sms: int, share: int
) -> None:
    schedule = Schedule(128, 128, stages=2, split_k=q, shares="any", sums=sums, store=store, cluster=2)  # type: ignore[arg-type]
    got, want, values = run(product(), schedule, m, n, k, sms)
    close(got, want)
    assert values["share"] == share and values["blocks"] == 2 * q * values["teams"] <= sms
    assert not got[SEMAPHORE].any()
    assert sums == "ordered" or not got[SUMS].any()


def test_every_step_belongs_to_one_block() -> None:
    for tiles, steps, q, sms in (
        (58, 135, 2, 132),
        (80, 692, 8, 132),
        (1, 1, 4, 132),
        (352, 112, 3, 132),
        (5, 7, 3, 9),
    ):
        values = launch_values(
            replace(HALVES, split_k=q, shares="any"), {"M": 128 * tiles, "N": 64, "K": 64 * steps}, sms, 64
        )
        total = values["share"] * values["steps"]
        bounds = [j * total // q for j in range(q + 1)]
        assert all(a < b for a, b in pairwise(bounds))
        assert values["teams"] * values["share"] >= tiles and values["blocks"] <= sms


# ---------------------------------------------------------------- proofs


def reparsed(kernel: n.Kernel) -> n.Kernel:
    (found,) = parse(print_kernel(kernel), "k.syncir")
    return found


def check(kernel: n.Kernel, values: dict[str, int] | None = None) -> KernelReport:
    return check_kernel(reparsed(kernel), values or {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)


@pytest.mark.parametrize("sums", ["ordered", "any"])
@pytest.mark.parametrize("schedule", [HALVES, THIRDS], ids=["direct", "staged"])
@pytest.mark.parametrize("policy", list(Policy))
def test_proved(schedule: Schedule, sums: str, policy: Policy) -> None:
    kernel = reparsed(build(product(), replace(schedule, sums=sums), policy))  # type: ignore[arg-type]
    assert check_kernel(kernel, {}, policy, scope=ScopeKind.EXACT).verdict is Verdict.PROVED


@pytest.mark.parametrize("sums", [pytest.param("ordered", marks=pytest.mark.slow), "any"])
def test_clusters_are_proved(sums: str, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    schedule = Schedule(128, 128, stages=2, store="tma", split_k=2, shares="any", cluster=2, sums=sums)  # type: ignore[arg-type]
    compiled = CompiledMatmul(product(), schedule, cache=Cache(tmp_path))
    values = compiled.launch_values({"M": 500, "N": 136, "K": 328}, 12)
    assert values["share"] == 2 and values["blocks"] == 8
    for stage in ("ir", "ptx"):
        assert compiled.program().check(stage, values).verdict is Verdict.PROVED
    assert check(edited(build(product(), schedule), _early)).verdict is Verdict.REFUTED


def test_a_whole_grid_is_proved_both_ways(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    compiled = CompiledMatmul(product(), THIRDS, cache=Cache(tmp_path))
    values = compiled.launch_values({"M": 500, "N": 136, "K": 200}, 132)
    assert values["blocks"] == 36
    for stage in ("ir", "ptx"):
        assert compiled.program().check(stage, values).verdict is Verdict.PROVED


def edited(kernel: n.Kernel, f: Callable[[n.Stmt], tuple[n.Stmt, ...]]) -> n.Kernel:
    changed = replace(kernel, body=flat_map(kernel.body, f))
    assert changed != kernel
    return changed


def _read_only(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The wait before the release, for reads alone."""
    if isinstance(s, n.If) and any(isinstance(x, n.AtomGlobal) for x in s.then):
        return (replace(s, then=(n.BulkWait(Int(0), read=True), *s.then[1:])),)
    return (s,)


def _early(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The release before the wait."""
    if isinstance(s, n.If) and any(isinstance(x, n.AtomGlobal) for x in s.then):
        return (replace(s, then=tuple(reversed(s.then))),)
    return (s,)


def _changed(kind: type[n.Stmt], **fields: object) -> Callable[[n.Stmt], tuple[n.Stmt, ...]]:
    return lambda s: (replace(s, **fields),) if isinstance(s, kind) else (s,)


def _without(kind: type[n.Stmt]) -> Callable[[n.Stmt], tuple[n.Stmt, ...]]:
    return lambda s: () if isinstance(s, kind) else (s,)


CHANGES: dict[str, Callable[[n.Stmt], tuple[n.Stmt, ...]]] = {
    "wait for reads": _read_only,
    "early release": _early,
    "relaxed release": _changed(n.AtomGlobal, sem="relaxed"),
    "narrow release": _changed(n.AtomGlobal, scope="cta"),
    "relaxed acquire": _changed(n.SpinGlobal, sem="relaxed"),
    "narrow acquire": _changed(n.SpinGlobal, scope="cta"),
    "no wait": _without(n.SpinGlobal),
    "no release": _without(n.AtomGlobal),
}


@pytest.mark.parametrize("sums", ["ordered", "any"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_hands_sums_over_is_needed(change: Callable[[n.Stmt], tuple[n.Stmt, ...]], sums: str) -> None:
    kernel = build(product(), replace(HALVES, sums=sums))  # type: ignore[arg-type]
    assert check(edited(kernel, change)).verdict is Verdict.REFUTED


def test_proved_for_every_size() -> None:
    report = check_kernel(reparsed(build(product(), HALVES)), scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert report.assumptions == (
        "the flags in semaphore are 0 at launch, and every launch leaves them so",
        "a block starts no later than those of higher numbers, which wait for it",
        "no place of out is written twice",
    )


def _some(names: Iterable[str], slow: Collection[str]) -> list[object]:
    """Cases, those marked that say little more than the others."""
    return [pytest.param(x, marks=pytest.mark.slow if x in slow else ()) for x in names]


@pytest.mark.parametrize(
    "name",
    _some(
        ["wait for reads", "early release", "narrow acquire", "no release"], ["early release", "no release"]
    ),
)
def test_none_of_those_is_proved_for_every_size(name: str) -> None:
    kernel = edited(build(product(), ONE), CHANGES[name])
    report = check_kernel(reparsed(kernel), scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.values["M"]) == (Verdict.REFUTED, 1)


@pytest.mark.parametrize("sizes", [(500, 136, 200), pytest.param((700, 200, 456), marks=pytest.mark.slow)])
def test_any_team_stands_for_a_large_grid(sizes: tuple[int, int, int]) -> None:
    """One run for all block groups instead of a look at each cluster; what is wrong is refuted as before."""
    values = launch_values(THIRDS, dict(zip("MNK", sizes, strict=True)), 60, 64)
    kernel = build(product(), THIRDS)
    report = check(kernel, values)
    assert values["blocks"] > 16 and (report.verdict, report.stats["nodes"]) == (Verdict.PROVED, 1)
    assert len(report.assumptions) == 3
    for name in ("wait for reads", "narrow acquire", "no release"):
        assert check(edited(kernel, CHANGES[name]), values).verdict is Verdict.REFUTED


def _next_flag(s: n.Stmt) -> tuple[n.Stmt, ...]:
    return (replace(s, dst=replace(s.dst, start=s.dst.start + 1)),) if isinstance(s, n.AtomGlobal) else (s,)


def _next_sums(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """Partial sums where the next team's lie."""
    size = 2 * ONE.tile_m * ONE.tile_n
    return (replace(s, dst=replace(s.dst, start=s.dst.start + size)),) if isinstance(s, n.BulkStore) else (s,)


def _own_slot(s: n.Stmt) -> tuple[n.Stmt, ...]:
    return (replace(s, value=Var("ours")),) if isinstance(s, n.Let) and s.name == "theirs" else (s,)


@pytest.mark.parametrize("change", [_next_flag, pytest.param(_next_sums, marks=pytest.mark.slow), _own_slot])
def test_other_flags_and_sums_are_not_proved(change: Callable[[n.Stmt], tuple[n.Stmt, ...]]) -> None:
    report = check_kernel(reparsed(edited(build(product(), ONE), change)), scope=ScopeKind.ALL)
    assert report.scope.kind is ScopeKind.EXACT


# ---------------------------------------------------------------- PTX


PTX_CHANGES = {
    "wait for reads": ("bulk.wait_group 0", "bulk.wait_group.read 0"),
    "relaxed release": ("red.release.gpu", "red.relaxed.gpu"),
    "narrow release": ("red.release.gpu", "red.release.cta"),
    "relaxed acquire": ("ld.acquire.gpu", "ld.relaxed.gpu"),
    "narrow acquire": ("ld.acquire.gpu", "ld.acquire.cta"),
}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """What the compiler makes of a product whose tiles two blocks share."""
    pytest.importorskip("cuda.bindings.nvrtc")
    return CompiledMatmul(product(), ONE, cache=Cache(tmp_path_factory.mktemp("cache"))).program()


def test_its_ptx_is_proved_for_every_size(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    halves = CompiledMatmul(product(), HALVES, cache=Cache(tmp_path)).program()
    report = check_ptx(halves.kernel, halves.ptx, Policy.PRACTICAL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert {
        "flags and counters in global memory are zero at launch",
        "every launch leaves the flags as it finds them",
        "blocks start in the order of their numbers",
        "no place of out is written twice",
    } <= set(report.assumptions)


#: Other edits of the same kind, each checked as IR above.
SLOWER = (_own_slot, _early, _next_sums, _without(n.SpinGlobal))


@pytest.mark.parametrize(
    "name", _some(PTX_CHANGES, ["relaxed release", "narrow acquire", "relaxed acquire", "wait for reads"])
)
def test_what_hands_sums_over_is_needed_in_ptx(name: str, one: Program) -> None:
    change = PTX_CHANGES[name]
    assert change[0] in one.ptx
    report = check_ptx(one.kernel, one.ptx.replace(*change), Policy.PRACTICAL)
    assert report.verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    "change",
    [_next_flag, *(pytest.param(c, marks=pytest.mark.slow) for c in SLOWER)],
)
def test_ptx_of_wrong_kernels_is_not_proved(
    change: Callable[[n.Stmt], tuple[n.Stmt, ...]], tmp_path: Path
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = reparsed(edited(build(product(), ONE), change))
    program = Program(kernel, Policy.PRACTICAL, cache=Cache(tmp_path))
    report = check_ptx(kernel, program.ptx, Policy.PRACTICAL)
    assert (report.verdict, report.scope.kind) != (Verdict.PROVED, ScopeKind.ALL)


def _first(body: Body) -> Body:
    """The body without the barrier that tells a warpgroup of what one thread waited for."""

    def told(s: n.Stmt) -> tuple[n.Stmt, ...]:
        spins = isinstance(s, n.If) and any(isinstance(x, n.SpinGlobal) for x in walk(s.then))
        if spins and isinstance(s, n.If) and isinstance(s.then[-1], n.BarrierSync):
            return (replace(s, then=s.then[:-1]),)
        return (s,)

    return flat_map(body, told)


def test_the_others_of_the_warpgroup_have_to_hear_of_it() -> None:
    kernel = build(product(), HALVES)
    changed = replace(kernel, body=_first(kernel.body))
    assert changed != kernel
    assert check(changed).verdict is Verdict.REFUTED


def test_a_block_waits_for_lower_numbers_only() -> None:
    """Runs the other way around: nothing says that the blocks that are waited for are running."""
    kernel = build(product(), HALVES)

    def other_way(s: n.Stmt) -> tuple[n.Stmt, ...]:
        match s:
            case n.Let("number", _):
                return (replace(s, value=Var("block") % 2),)
            case n.Let("theirs", value):
                return (replace(s, value=Var("team") * 2 + 1 - (value - Var("team") * 2)),)
        return (s,)

    report = check(edited(kernel, other_way))
    assert report.verdict is Verdict.UNKNOWN
    assert "may not be running" in (report.reason or "")


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(split_k=17, shares="any"),
        Schedule(split_k=3, sums="any"),
        Schedule(split_k=9, cluster=2),
        Schedule(split_k=2, shares="any", persistent=True),
        Schedule(128, 16, split_k=2, shares="any"),
    ],
)
def test_impossible_splits(schedule: Schedule) -> None:
    with pytest.raises(InputError):
        schedule.check()


def test_slots_that_free_each_other_hang_where_the_loader_is_late() -> None:
    """No schedule follows what comes before the loader's look alone: it has to be kept waiting."""
    kernel = build(
        product(), Schedule(128, 256, stages=2, store="tma", split_k=3, shares="any", registers=(40, 232))
    )
    freed: list[n.Stmt] = []

    def other(s: n.Stmt) -> tuple[n.Stmt, ...]:
        if not isinstance(s, n.MbarrierArrive) or s.bar.name != "empty" or s.bar.index is None:
            return (s,)
        freed.append(s)
        return (replace(s, bar=replace(s.bar, index=(s.bar.index + 1) % 2)),)

    report = check_kernel(replace(kernel, body=flat_map(kernel.body, other)))
    assert freed and report.verdict is Verdict.REFUTED
    assert {d.rule for d in report.diagnostics if d.severity.value == "error"} == {"SV201"}
