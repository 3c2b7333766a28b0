"""The passes: sufficient (every kernel is proved) and necessary (without any sync it is refuted)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule, Tensor, trace, where
from syncverify.fusion.pipeline import PASS_NAMES, build, passes
from syncverify.ir import nodes as n
from syncverify.ir.check.well_formed import verify
from syncverify.ir.expr import Int, Var
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel, print_stmt
from syncverify.passes.rewrite import flat_map, unused, walk

SMALL = Schedule(tile=1024, compute_warps=4, stages=3)

SETTINGS = [
    "", "store=tma", "mode=pipelined", "mode=pipelined store=tma", "async_warps=2",
    "async_warps=4 arrive=thread",
    "prefetch=2", "prefetch=1 store=tma store_stages=1", "mode=pipelined prefetch=3",
    "mode=pipelined prefetch=1",
    "mode=pipelined store=tma prefetch=3 store_stages=3", "stages=1", "mode=pipelined stages=1",
    "store=tma store_stages=4 stages=8", "mode=pipelined async_warps=2", "split=a:0+1,b:1 async_warps=2",
    "registers=40,232 compute_warps=8 async_warps=3 blocks_per_sm=1", "index=i64",
]  # fmt: skip

SYNC = (
    n.BarrierSync, n.WarpSync, n.MbarrierInit, n.MbarrierArrive, n.MbarrierWait, n.FenceMbarrierInit,
    n.FenceProxyAsync, n.BulkCommit, n.BulkWait,
)  # fmt: skip


def verdict(kernel: Kernel, policy: Policy = Policy.PRACTICAL) -> Verdict:
    return check_kernel(kernel, {}, policy).verdict


@pytest.mark.parametrize(("settings", "policy"), list(product(SETTINGS, Policy)))
def test_compiled_kernels_are_proved(settings: str, policy: Policy) -> None:
    kernel = build(examples.mul, SMALL.with_settings(settings.split()), policy)
    verify(kernel)
    assert parse(print_kernel(kernel)) == (kernel,)
    assert verdict(kernel, policy) is Verdict.PROVED


@pytest.mark.parametrize(
    ("name", "settings"),
    list(product(["scale", "scale_add", "select4", "normalize", "gate_pair", "bias_gelu"],
                 ["", "mode=pipelined store=tma"])),
)  # fmt: skip
def test_other_fusions_are_proved(name: str, settings: str) -> None:
    kernel = build(getattr(examples, name), SMALL.with_settings(settings.split()))
    assert verdict(kernel) is Verdict.PROVED


@pytest.mark.parametrize(
    ("store", "mode"), list(product(["direct", "tma"], ["warp-specialized", "pipelined"]))
)
def test_copies_outer_products_and_two_outputs_are_proved(store: str, mode: str) -> None:
    fused = [
        trace(lambda a: a.cast("bf16"), {"a": Tensor("f32", ("R", "C"))}),
        trace(lambda a, b: a * b, {"a": Tensor("f32", ("R",)), "b": Tensor("f32", ("C",))}),
        trace(
            lambda a: {"x": where(a > 0.0, a, 1.0), "y": where(a > 0.0, 0.0, a)}, {"a": Tensor("f32", ("N",))}
        ),
    ]
    for fusion in fused:
        assert (
            verdict(build(fusion, SMALL.with_settings([f"store={store}", f"mode={mode}"]))) is Verdict.PROVED
        )


@pytest.mark.parametrize("stages", range(2, 9))
def test_every_number_of_stages_is_proved(stages: int) -> None:
    for mode in ("warp-specialized", "pipelined"):
        for prefetch in (1, stages - 1, stages):
            schedule = SMALL.with_settings([f"stages={stages}", f"prefetch={prefetch}", f"mode={mode}"])
            assert verdict(build(examples.mul, schedule)) is Verdict.PROVED, (mode, prefetch)


def test_practical_kernels_are_not_proved_strictly() -> None:
    """K1: the text wants a fence after the reads; practice accepts that the values are used first."""
    report = check_kernel(build(examples.mul, SMALL), {}, Policy.STRICT)
    assert report.verdict is Verdict.REFUTED
    assert {d.rule for d in report.diagnostics if d.severity == "error"} == {"SV105"}


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ("", "full-barriers"), ("", "empty-barriers"), ("", "mbarrier-init"),
        ("store=tma", "bulk-groups"), ("store=tma", "handover-barriers"), ("store=tma", "proxy-fences"),
        ("mode=pipelined", "full-barriers"), ("mode=pipelined", "handover-barriers"),
        ("mode=pipelined", "elect"),
        ("mode=pipelined", "mbarrier-init"), ("mode=pipelined store=tma", "bulk-groups"),
        ("mode=pipelined store=tma", "handover-barriers"), ("mode=pipelined store=tma", "proxy-fences"),
    ],
)  # fmt: skip
def test_without_a_pass_the_kernel_is_refuted(settings: str, missing: str) -> None:
    schedule = SMALL.with_settings(settings.split())
    assert missing in PASS_NAMES and missing in {
        p.name for p in passes(examples.mul, schedule, Policy.PRACTICAL)
    }
    kernel = build(examples.mul, schedule, without=frozenset({missing}))
    report = check_kernel(kernel)
    assert report.verdict is Verdict.REFUTED and report.witness is not None


def without_each(kernel: Kernel) -> Iterator[tuple[n.Stmt, Kernel]]:
    """The kernel without one synchronizing statement, for each of them."""
    total = sum(isinstance(s, SYNC) for s in walk(kernel.body))
    for wanted in range(total):
        seen = -1
        removed: list[n.Stmt] = []

        def drop(s: n.Stmt, wanted: int = wanted, removed: list[n.Stmt] = removed) -> tuple[n.Stmt, ...]:
            nonlocal seen
            seen += isinstance(s, SYNC)
            if isinstance(s, SYNC) and seen == wanted:
                removed.append(s)
                return ()
            return (s,)

        body = flat_map(kernel.body, drop)
        yield removed[0], replace(kernel, body=body)


#: What stores, fences and arrives otherwise under each policy; the rest of the strict kernels are slow.
BOTH = ("", "store=tma store_stages=4", "async_warps=2 arrive=thread")


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        pytest.param(x, p, marks=pytest.mark.slow if p is Policy.STRICT and x not in BOTH else ())
        for x in ["", "store=tma", "store=tma store_stages=1", "store=tma store_stages=4", "mode=pipelined",
                  "mode=pipelined prefetch=3", "mode=pipelined store=tma",
                  "async_warps=2 arrive=thread", "prefetch=2"]
        for p in Policy
    ],
)  # fmt: skip
def test_every_synchronization_is_necessary(settings: str, policy: Policy) -> None:
    # two warps that compute: how many more there are is no matter here
    kernel = build(examples.mul, replace(SMALL, compute_warps=2).with_settings(settings.split()), policy)
    needless = [
        print_stmt(s) for s, broken in without_each(kernel) if verdict(broken, policy) is Verdict.PROVED
    ]
    assert needless == []


def inits(kernel: Kernel) -> dict[str, int]:
    return {
        s.bar.name: s.count.value
        for s in walk(kernel.body)
        if isinstance(s, n.MbarrierInit) and isinstance(s.count, Int)
    }


def test_counts_come_from_who_arrives() -> None:
    mul = examples.mul
    assert inits(build(mul, SMALL)) == {"full0": 1, "empty0": 4}
    assert inits(build(mul, replace(SMALL, arrive="thread"))) == {"full0": 1, "empty0": 128}
    assert inits(build(mul, replace(SMALL, mode="pipelined", async_warps=2))) == {"full0": 1, "full1": 1}
    shared = replace(SMALL, async_warps=2, split={"a": (0,), "b": (0, 1)})
    assert inits(build(mul, shared)) == {"full0": 1, "full1": 1, "empty0": 4, "empty1": 4}
    # without the predicate every lane of the async warp arrives
    assert inits(build(mul, SMALL, without=frozenset({"elect"})))["full0"] == 32


def test_expected_bytes_are_the_sum_of_the_copies() -> None:
    kernel = build(examples.gate_pair, SMALL)
    (expected,) = [
        s.expect for s in walk(kernel.body) if isinstance(s, n.MbarrierArrive) and s.expect is not None
    ]
    assert expected == Int(1024 * 4 + 1024 * 2)


def test_fences_follow_the_policy() -> None:
    def fences(policy: Policy, settings: str) -> int:
        kernel = build(examples.mul, SMALL.with_settings(settings.split()), policy)
        return sum(isinstance(s, n.FenceProxyAsync) for s in walk(kernel.body))

    assert fences(Policy.PRACTICAL, "") == 0
    assert fences(Policy.STRICT, "") == 1
    assert fences(Policy.PRACTICAL, "store=tma") == 1
    assert fences(Policy.PRACTICAL, "mode=pipelined store=tma") == 1


def test_observers_see_every_pass() -> None:
    seen: list[str] = []
    build(examples.mul, SMALL, observe=lambda name, kernel: seen.append(name))
    assert seen == ["lower", *(p.name for p in passes(examples.mul, SMALL, Policy.PRACTICAL))]


def test_passes_do_not_change_their_argument() -> None:
    kernels: list[tuple[Kernel, str]] = []
    build(examples.mul, replace(SMALL, store="tma"), observe=lambda _, k: kernels.append((k, repr(k))))
    assert all(repr(k) == text for k, text in kernels)


def test_a_new_name_is_that_of_no_register() -> None:
    kernel = build(examples.mul, SMALL)
    assert unused(kernel, "s") == "s"
    named = replace(kernel, body=(n.Let("s", Var("lane")), *kernel.body))
    assert unused(named, "s") == "s_"
