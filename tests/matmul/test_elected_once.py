"""Products are proved for one elected lane of a warp: in no form does its own code depend on its number.

By the text of kernels alone. A single name that a register and a loop shared made proofs 26 times dearer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import pytest

from syncverify.frontends.ir.lane_classes import elections
from syncverify.fusion import Fusion, Tensor, gelu, relu, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir.launch_grid import Grid
from syncverify.ir.loop_scopes import with_own_loops
from syncverify.matmul import Problem, Schedule
from syncverify.matmul.choose import TWO, forms
from syncverify.matmul.pipeline import build

ACC, BIAS, MORE = Tensor("f32", ("M", "N")), Tensor("bf16", ("N",)), Tensor("bf16", ("M", "N"))
EPILOGUES: dict[str, Fusion] = {
    "plain": trace(lambda acc: acc.cast("bf16"), {"acc": ACC}),
    "bias": trace(lambda acc, bias: (acc + bias).cast("bf16"), {"acc": ACC, "bias": BIAS}),
    "sum": trace(lambda acc, x: (acc + x).cast("bf16"), {"acc": ACC, "x": MORE}),
    "gelu": trace(lambda acc, bias: gelu(acc + bias).cast("bf16"), {"acc": ACC, "bias": BIAS}),
    "two results": trace(lambda acc: {"y": acc.cast("bf16"), "z": relu(acc)}, {"acc": ACC}),
    "two with a bias": trace(
        lambda acc, bias: {"y": (acc + bias).cast("bf16"), "z": gelu(acc + bias).cast("bf16")},
        {"acc": ACC, "bias": BIAS},
    ),
}
SIZES = {"M": 512, "N": 512, "K": 512}


def problem(name: str) -> Problem:
    return Problem("p", "bf16", "KK", EPILOGUES[name])


def drawn() -> Iterator[tuple[str, Schedule]]:
    """Every form of the menu, each with another epilogue than the one before; whole ones by turns as late
    launches (``dependent``); and forms whose warpgroups take turns."""
    late = cycle((False, True))
    for k, name in enumerate(EPILOGUES):
        for s in forms(problem(name))[k :: len(EPILOGUES)]:
            yield name, replace(s, dependent=s.split_k == 1 and next(late))
    pingpong = Schedule(128, 128, stages=2, persistent=True, pingpong=True, registers=TWO)
    for name in ("plain", "bias", "sum", "gelu"):
        for cluster in (1, 2):
            yield name, replace(pingpong, cluster=cluster, store="tma" if cluster == 2 else "direct")


def kind(s: Schedule) -> tuple[object, ...]:
    """All that the text of a form follows from but widths, and how many blocks share a tile."""
    shared = s.shares if s.split_k > 1 else ""
    return s.consumers, s.persistent, s.pingpong, s.cluster, s.beside, shared, s.store, s.pending


def of_each_kind() -> list[tuple[str, Schedule]]:
    """One form of each kind, with different epilogues."""
    kinds: dict[tuple[object, ...], list[tuple[str, Schedule]]] = {}
    for name, s in drawn():
        kinds.setdefault(kind(s), []).append((name, s))
    return [some[len(some) * (k % 6) // 6] for k, some in enumerate(kinds.values())]


def tried_for_many(name: str, schedule: Schedule) -> str:
    """Why proofs would try many lanes; empty where they do not."""
    kernel = build(problem(name), schedule)
    values = CompiledMatmul(problem(name), schedule).launch_values(SIZES)
    found = elections(kernel, {}, Grid.of(kernel, values))
    why = [x for x in ("by_number", "pairs") if getattr(found, x)] + ["a name"][
        : with_own_loops(kernel) is not kernel
    ]
    return f"{schedule.title} {name}: {why}" if why else ""


def test_no_kind_of_product_is_proved_for_each_lane() -> None:
    some = of_each_kind()
    assert len(some) > 100 and len({name for name, _ in some}) == len(EPILOGUES)
    assert not [why for one in some if (why := tried_for_many(*one))]


@pytest.mark.slow
def test_no_form_of_the_menu_is_proved_for_each_lane() -> None:
    assert not [why for one in drawn() if (why := tried_for_many(*one))]
