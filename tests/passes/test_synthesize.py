"""Synthesized synchronization: sufficient, necessary, and the kernel computes what it is meant to.

``UPDATE_GOLDEN=1`` writes the kernels of ``golden/`` again.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.ir.check.well_formed import verify
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.minimize import minimize
from syncverify.passes.synthesize import passes, synthesize
from syncverify.simulate.ir import run, sample
from tests.passes.cases import CASES

GOLDEN = Path(__file__).parent / "golden"


def built(name: str, policy: Policy = Policy.PRACTICAL) -> Kernel:
    return synthesize(CASES[name].make(), policy, CASES[name].options)


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_is_the_golden_one(name: str) -> None:
    text = print_kernel(built(name))
    path = GOLDEN / f"{name}.syncir"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text("utf-8")
    (parsed,) = parse(text)
    verify(parsed)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        *product(CASES, [Policy.PRACTICAL]),
        *product(["chained", "two_phases", "cp_async_ring"], [Policy.STRICT]),
    ],
)
def test_nothing_is_missing_and_nothing_can_go(name: str, policy: Policy) -> None:
    m = minimize(built(name, policy), policy=policy, scope=ScopeKind.EXACT)
    assert m.report.verdict is Verdict.PROVED, m.report.diagnostics
    assert m.removed == ()
    assert tuple(str(k.reason) for k in m.kept) == CASES[name].kept


#: Blocks that synchronize through global memory are decided for their values; products of sizes take minutes.
EXACT = {"reduced", "reduced_in_turn", "multiply_and_stage"}


@pytest.mark.parametrize(("name", "policy"), list(product(sorted(CASES.keys() - EXACT), Policy)))
def test_every_size_is_proved(name: str, policy: Policy) -> None:
    report = check_kernel(built(name, policy), policy=policy, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("name", CASES)
def test_values_are_right(name: str) -> None:
    case = CASES[name]
    inputs = case.inputs(np.random.default_rng(1))
    found = run(built(name), {}, inputs)
    for output, expected in case.outputs(inputs).items():
        got = np.asarray(found[output]).astype(np.float64).reshape(expected.shape)
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["chained", "two_phases", "cp_async_roles"])
def test_random_schedules_do_no_harm(name: str) -> None:
    (kernel,) = parse(print_kernel(built(name)))
    assert sample(kernel, {p.name: 3 for p in kernel.params}, runs=5).harms == ()


def test_every_pass_can_be_observed() -> None:
    seen: list[str] = []
    synthesize(CASES["chained"].make(), observe=lambda name, _: seen.append(name))
    assert seen == [p.name for p in passes(Policy.PRACTICAL)]


def test_what_cannot_be_ordered_names_its_statement() -> None:
    head = "kernel k {\n  launch block [64]\n  param N : i32 = 3\n  tensor a : f32[N * 64] in\n"
    role = "  role load warps 0..1 {\n    bulk.load t, a[0 : 64], full\n  }\n"
    load = f"  shared t : f32[64]\n  mbarrier full\n{role}"
    unread = f"{head}{load}}}\n"
    with pytest.raises(InputError, match=r"k\.syncir:8:.*nobody reads what this copy brings into t"):
        synthesize(parse(unread, "k.syncir")[0])
    loops = "  shared t : f32[2, 64]\n" + "".join(
        f"  for {v} in 0..N {{\n    role {r} {{\n      {s}\n    }}\n  }}\n"
        for v, r, s in (("i", "one warps 0..1", "st.shared t[i % 2][lane : 1], 1.0"),
                        ("j", "two warps 1..2", "ld.shared x, t[j % 2][lane : 1]"))
    )  # fmt: skip
    with pytest.raises(InputError, match="counted by several loops"):
        synthesize(parse(f"{head}{loops}}}\n", "k.syncir")[0])
