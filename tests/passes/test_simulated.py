"""The simulator agrees: proved kernels show no harm in random schedules, refutations replay."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.ir import check_kernel
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule
from syncverify.fusion.lower import launch_values
from syncverify.fusion.pipeline import build
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.simulate.ir import replay, sample

TINY = Schedule(tile=256, compute_warps=2, stages=2)
#: Each slot is used more than three times, and a ragged end remains.
SIZES = {"R": 1, "C": 256 * 7 + 13}


def kernel(settings: str, *without: str) -> Kernel:
    built = build(examples.mul, TINY.with_settings(settings.split()), without=frozenset(without))
    (parsed,) = parse(print_kernel(built), "mul.syncir")
    return parsed


@pytest.mark.parametrize(
    "settings",
    ["", "store=tma", "mode=pipelined", "mode=pipelined store=tma prefetch=2", "async_warps=2",
     "arrive=thread", "prefetch=1", "store=tma store_stages=1"],
)  # fmt: skip
def test_proved_kernels_do_no_harm(settings: str) -> None:
    proved = kernel(settings)
    values = launch_values(proved, SIZES, 1)
    assert check_kernel(proved, values).verdict is Verdict.PROVED
    assert sample(proved, values, runs=20).harms == ()


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ("", "full-barriers"), ("", "empty-barriers"), ("", "mbarrier-init"), ("store=tma", "bulk-groups"),
        ("store=tma", "proxy-fences"), ("store=tma", "handover-barriers"),
        ("mode=pipelined", "handover-barriers"),
    ],
)  # fmt: skip
def test_refutations_replay(settings: str, missing: str) -> None:
    broken = kernel(settings, missing)
    report = check_kernel(broken, launch_values(broken, SIZES, 1))
    assert report.verdict is Verdict.REFUTED and report.witness is not None
    result = replay(report.witness, broken)
    assert result.reproduced, result.reason
