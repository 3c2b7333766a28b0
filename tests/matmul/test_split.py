"""Parts of tiles that blocks of a block group leave for each other: right against NumPy, proved, refuted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.codegen.cache import Cache
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, gelu, silu, trace
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
from syncverify.matmul.split import SEMAPHORE
from syncverify.passes.rewrite import flat_map
from syncverify.simulate import ir
from tests.matmul.split_helpers import BF16, RNG, close, run

PAIRS = Schedule(128, 64, stages=2, split_k=3)
ONE = replace(PAIRS, split_k=4, shares="one")
SMALL = Schedule(64, 32, consumers=1, stages=2, split_k=3)
C = Tensor("f32", ("M", "N"))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("store", ["direct", "tma"])
@pytest.mark.parametrize(("shares", "q"), [("pairs", 2), ("pairs", 3), ("one", 2), ("one", 4)])
@pytest.mark.parametrize(("m", "cols", "k"), [(8, 8, 40), (300, 72, 200), (136, 136, 1000)])
def test_against_numpy(shares: str, q: int, store: str, persistent: bool, m: int, cols: int, k: int) -> None:
    schedule = Schedule(
        128,
        64,
        stages=2,
        split_k=q,
        shares=shares,
        store=store,
        persistent=persistent,  # type: ignore[arg-type]
    )
    got, want, values = run(product(), schedule, m, cols, k, 8)
    close(got, want)
    assert values["blocks"] <= 8 or not persistent
    assert not got[SEMAPHORE].any()  # the next launch finds what this one found


@pytest.mark.parametrize("shares", ["pairs", "one"])
def test_sums_come_in_one_order(shares: str) -> None:
    """Whatever the blocks' order in time, the bits are the same."""
    a, b = (RNG.standard_normal(s).astype(BF16) for s in ((100, 520), (64, 520)))
    schedule = replace(PAIRS, shares=shares)  # type: ignore[arg-type]
    kernel = build(product(), schedule)
    values = launch_values(schedule, {"M": 100, "N": 64, "K": 520}, 6, 64)
    given = {"a": a, "b": b, "out": np.zeros((100, 64), BF16)}
    found = [ir.run(kernel, values, given)["out"].tobytes() for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.parametrize("persistent", [False, True])
def test_one_group_in_flight(persistent: bool) -> None:
    schedule = replace(PAIRS, stages=3, pending=1, store="tma", persistent=persistent)
    close(*run(product(), schedule, 256, 64, 968, 6)[:2])


@pytest.mark.parametrize("layout", ["KN", "MK", "MN"])
def test_other_layouts(layout: str) -> None:
    close(*run(product(layout=layout), ONE, 136, 72, 328, 8)[:2])


@pytest.mark.parametrize(("shares", "persistent"), [("pairs", True), ("one", False)])
def test_clusters(shares: str, persistent: bool) -> None:
    schedule = Schedule(
        128,
        128,
        stages=2,
        split_k=2,
        shares=shares,
        store="tma",
        cluster=2,
        persistent=persistent,  # type: ignore[arg-type]
    )
    close(*run(product(), schedule, 300, 136, 264, 8)[:2])


def test_other_tiles_and_an_epilogue() -> None:
    def bias_gelu(acc: Any, bias: Any) -> Any:
        return gelu(acc + bias).cast("bf16")

    fused = trace(bias_gelu, {"acc": C, "bias": Tensor("bf16", ("N",))})
    bias = RNG.standard_normal(40).astype(BF16)
    for tile, consumers in (((256, 32), 2), ((192, 64), 3), ((64, 32), 1)):
        schedule = Schedule(*tile, consumers=consumers, stages=2, split_k=2, persistent=True)
        got, acc, _ = run(Problem("fused", "bf16", "KK", fused), schedule, 200, 40, 200, 4, bias=bias)
        (want,) = fused.reference({"acc": acc, "bias": bias})
        close(got, want.astype(np.float32))


def test_two_products(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")

    def swiglu(acc: Any, acc2: Any) -> Any:
        return (silu(acc) * acc2).cast("bf16")

    problem = Problem("swiglu", "bf16", "KK", trace(swiglu, {"acc": C, "acc2": C}))
    a, b, b2 = (RNG.standard_normal(s).astype(BF16) for s in ((100, 520), (40, 520), (40, 520)))
    compiled = CompiledMatmul(problem, SMALL, cache=Cache(tmp_path))
    (got,) = compiled.simulate(a, b.T, b2=b2.T, multiprocessors=6)
    acc, acc2 = (a.astype(np.float32) @ x.T.astype(np.float32) for x in (b, b2))
    (want,) = problem.epilogue.reference({"acc": acc, "acc2": acc2})
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-6, atol=2e-2)


# ---------------------------------------------------------------- proofs


def reparsed(kernel: n.Kernel) -> n.Kernel:
    (found,) = parse(print_kernel(kernel), "k.syncir")
    return found


def check(kernel: n.Kernel, scope: ScopeKind = ScopeKind.EXACT) -> KernelReport:
    return check_kernel(reparsed(kernel), {}, Policy.PRACTICAL, scope=scope)


FORMS = {
    "pairs": SMALL,
    "pairs, persistent": replace(SMALL, persistent=True),
    "pairs of clusters": Schedule(64, 128, consumers=1, stages=2, split_k=2, cluster=2, persistent=True),
    "one": replace(SMALL, split_k=5, shares="one"),
    "one, persistent": replace(SMALL, tile_n=64, shares="one", persistent=True, store="tma"),
}


def _some(names: Iterable[str], slow: Collection[str]) -> list[object]:
    """Cases, those marked that say little more than the others."""
    return [pytest.param(x, marks=pytest.mark.slow if x in slow else ()) for x in names]


def test_large_launches_of_clusters_are_proved() -> None:
    """Clusters that are gone through one after the other while sizes are forgotten."""
    compiled = CompiledMatmul(product(), FORMS["pairs of clusters"])
    values = compiled.launch_values({"M": 2112, "N": 1032, "K": 840}, 64)
    assert compiled.program().check("ir", values).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", _some(FORMS, ["pairs"]))
def test_proved_for_every_size(name: str) -> None:
    report = check(build(product(), FORMS[name]), ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert report.assumptions[:2] == (
        "the flags in semaphore are 0 at launch, and every launch leaves them so",
        "a block starts no later than those of higher numbers, which wait for it",
    )


def test_costs_do_not_grow_with_the_blocks_of_a_team() -> None:
    nodes = {
        q: check(build(product(), replace(SMALL, split_k=q)), ScopeKind.ALL).stats["nodes"] for q in (4, 13)
    }
    assert nodes[4] == nodes[13] > 0


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("policy", list(Policy))
def test_a_launch_is_proved(name: str, policy: Policy) -> None:
    kernel = reparsed(build(product(), FORMS[name], policy))
    assert check_kernel(kernel, {}, policy, scope=ScopeKind.EXACT).verdict is Verdict.PROVED


def edited(kernel: n.Kernel, f: Callable[[n.Stmt], tuple[n.Stmt, ...]]) -> n.Kernel:
    changed = replace(kernel, body=flat_map(kernel.body, f))
    assert changed != kernel
    return changed


def _changed(kind: type[n.Stmt], **fields: object) -> Callable[[n.Stmt], tuple[n.Stmt, ...]]:
    return lambda s: (replace(s, **fields),) if isinstance(s, kind) else (s,)


def _without(kind: type[n.Stmt]) -> Callable[[n.Stmt], tuple[n.Stmt, ...]]:
    return lambda s: () if isinstance(s, kind) else (s,)


def _before(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The barrier between the stores of a warpgroup and the release left out."""
    for at, x in enumerate(s.then if isinstance(s, n.If) else ()):
        if isinstance(x, n.BarrierSync) and any(isinstance(y, n.If) and _tells(y) for y in s.then[at + 1 :]):
            return (replace(s, then=(*s.then[:at], *s.then[at + 1 :])),)
    return (s,)


def _tells(s: n.If) -> bool:
    return any(isinstance(x, n.AtomGlobal) for x in s.then)


def _after(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The barrier behind the acquire left out."""
    for branch in ("then", "orelse"):
        body = getattr(s, branch, ())
        for at, x in enumerate(body[:-1]):
            spins = isinstance(x, n.If) and any(isinstance(y, n.SpinGlobal) for y in x.then)
            if spins and isinstance(body[at + 1], n.BarrierSync):
                return (replace(s, **{branch: (*body[: at + 1], *body[at + 2 :])}),)
    return (s,)


CHANGES: dict[str, Callable[[n.Stmt], tuple[n.Stmt, ...]]] = {
    "relaxed release": _changed(n.AtomGlobal, sem="relaxed"),
    "narrow release": _changed(n.AtomGlobal, scope="cta"),
    "relaxed acquire": _changed(n.SpinGlobal, sem="relaxed"),
    "narrow acquire": _changed(n.SpinGlobal, scope="cta"),
    "no wait": _without(n.SpinGlobal),
    "no release": _without(n.AtomGlobal),
    "no barrier before": _before,
    "no barrier behind": _after,
    "waits for more": _changed(n.SpinGlobal, value=Int(9)),
}


@pytest.mark.parametrize("name", ["pairs", "one"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_hands_sums_over_is_needed(change: Callable[[n.Stmt], tuple[n.Stmt, ...]], name: str) -> None:
    assert check(edited(build(product(), FORMS[name]), change)).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    "change", _some(CHANGES, ["narrow release", "relaxed acquire", "no wait", "waits for more"])
)
def test_none_of_those_is_proved_for_every_size(change: str) -> None:
    kernel = build(product(), replace(FORMS["one"], split_k=3))
    assert check(edited(kernel, CHANGES[change]), ScopeKind.ALL).verdict is Verdict.REFUTED


def _next_flag(s: n.Stmt) -> tuple[n.Stmt, ...]:
    return (replace(s, dst=replace(s.dst, start=s.dst.start + 1)),) if isinstance(s, n.AtomGlobal) else (s,)


def _other_sums(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """Sums are left where the next block's lie."""
    size = SMALL.tile_m * SMALL.tile_n
    left = isinstance(s, n.StGlobal) and s.dst.tensor == "partial_sums"
    return (replace(s, dst=replace(s.dst, start=s.dst.start + size)),) if left else (s,)


def _waits_for_itself(s: n.Stmt) -> tuple[n.Stmt, ...]:
    return (
        (replace(s, src=replace(s.src, start=Var("ours") + Var("wg"))),)
        if isinstance(s, n.SpinGlobal)
        else (s,)
    )


@pytest.mark.parametrize("change", [_next_flag, _other_sums, _waits_for_itself])
def test_other_flags_and_sums_are_not_proved(change: Callable[[n.Stmt], tuple[n.Stmt, ...]]) -> None:
    report = check(edited(build(product(), SMALL), change), ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) != (Verdict.PROVED, ScopeKind.ALL)


def test_nobody_waits_for_higher_numbers() -> None:
    """The last block of a block group leaves its part, and the first one finishes: it may not run yet."""

    def other_way(s: n.Stmt) -> tuple[n.Stmt, ...]:
        last = FORMS["one"].split_k - 1
        return (
            (replace(s, value=Int(last) - s.value),) if isinstance(s, n.Let) and s.name == "number" else (s,)
        )

    kernel = reparsed(edited(build(product(), FORMS["one"]), other_way))
    exact = check_kernel(kernel, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    assert exact.verdict is Verdict.UNKNOWN
    assert "may not be running" in str(exact.reason)
    every = all_sizes(kernel, {}, Policy.PRACTICAL, lambda values: exact.verdict)
    assert every.verdict is Verdict.UNKNOWN
    assert "the run hangs" in str(every.reason)


# ---------------------------------------------------------------- PTX


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    """The forms compiled, each once."""
    pytest.importorskip("cuda.bindings.nvrtc")
    folder = Cache(tmp_path_factory.mktemp("compiled"))
    return cache(lambda name: CompiledMatmul(product(), FORMS[name], cache=folder).program())


@pytest.mark.parametrize("name", _some(FORMS, ["pairs", "pairs of clusters"]))
def test_its_ptx_is_proved_for_every_size(name: str, programs: Callable[[str], Program]) -> None:
    p = programs(name)
    report = check_ptx(p.kernel, p.ptx, Policy.PRACTICAL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert "every launch leaves the flags as it finds them" in report.assumptions


PTX_CHANGES = {
    "relaxed release": ("red.release.gpu", "red.relaxed.gpu"),
    "narrow release": ("red.release.gpu", "red.release.cta"),
    "relaxed acquire": ("ld.acquire.gpu", "ld.relaxed.gpu"),
    "narrow acquire": ("ld.acquire.gpu", "ld.acquire.cta"),
}


@pytest.mark.parametrize("change", _some(PTX_CHANGES, ["narrow release", "relaxed acquire"]))
def test_what_hands_sums_over_is_needed_in_ptx(change: str, programs: Callable[[str], Program]) -> None:
    p = programs("one")
    old, new = PTX_CHANGES[change]
    assert old in p.ptx
    assert check_ptx(p.kernel, p.ptx.replace(old, new), Policy.PRACTICAL).verdict is Verdict.REFUTED


# ---------------------------------------------------------------- launches


def test_tiles_are_all_there_once() -> None:
    """Blocks of any launch have all tiles of C, and all steps of each."""
    for shares, q, persistent in (
        ("pairs", 3, True),
        ("one", 4, True),
        ("pairs", 2, False),
        ("one", 5, False),
    ):
        schedule = replace(PAIRS, split_k=q, shares=shares, persistent=persistent)  # type: ignore[arg-type]
        for m in (100, 1500, 5000):
            values = launch_values(schedule, {"M": m, "N": 64, "K": 64 * 41}, 12, 64)
            teams, shared = values["teams"], 1 if shares == "one" else q - 1
            assert teams * (values.get("turns", 0) * q + shared) >= -(-m // 128)
            assert values["blocks"] == teams * q and (not persistent or values["blocks"] <= 12)
            parts = [values["each"]] * q
            if shares == "pairs":
                parts = [(q - 1 - 0) * values["each"] + 1, values["each"] + values["more"]]
            assert sum(parts) >= values["steps"]
