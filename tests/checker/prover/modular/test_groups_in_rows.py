"""Block groups that are rows of the grid, proved as any member of a block group; beside small launches, each
checked whole.

A small launch has all of its blocks beside each other, and no block or team stands for another one.
"""

from __future__ import annotations

from functools import cache

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import each_cluster_alone, problem_of
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.block_groups import group_size, in_rows
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate import ir
from tests.checker.prover.parametric.group_programs import Team

_ROWS = """kernel rows {{
  launch grid [{n}, T] block [64]
  param T : i32
  param K : i32
  assume T >= 1
  assume K >= 1
  tensor sums : f32[T * {n} * 128 + 256] inout
  tensor flag : u32[T * {n} + 2] inout

  let team = block.y
  let place = block.x
  let ours = team * {n} + place
  if {gives} {{
    for i in 0..K {{
      st.global sums[{to} + tid * 2 : 2], 1.0
    }}
    {before}
    if tid == 0 {{
      {early}
      {signal} flag[{told}], 1
    }}
    {late}
  }}
  if {takes} {{
    if tid == 0 {{
      {spin} flag[{asked}] {until}
    }}
    {behind}
    {reads}
    bar.sync 0
    if tid == 0 {{
      {left}
    }}
  }}
}}
"""
_READ = "ld.global x{}, sums[{} + tid * 2 : 2]"
_USUAL = {
    "gives": "place < {n} - 1", "takes": "place > 0", "to": "ours * 128", "before": "bar.sync 0", "early": "",
    "signal": "atom.global.add.release.gpu", "told": "ours", "late": "", "spin": "spin.global.acquire.gpu",
    "asked": "ours - 1", "until": ">= 1", "behind": "bar.sync 0",
    "reads": _READ.format(0, "(ours - 1) * 128"), "left": "st.global.relaxed.gpu flag[ours - 1], 0",
}  # fmt: skip
_ONE = {"takes": "place == {n} - 1", "told": "team", "asked": "team", "until": ">= {n} - 1",
        "left": "st.global.relaxed.gpu flag[team], 0"}  # fmt: skip
#: ``pairs``: each leaves something for the next one; ``one``: all do for the last one.
GOOD = {
    "pairs": {},
    "one": _ONE,
    "slots from the second one on": {
        "to": "(ours + 1) * 128", "reads": _READ.format(0, "ours * 128"), "gives": "place < {n} - 1",
    },
    "flags are left": {"left": "ld.global y, sums[(ours - 1) * 128 : 1]"},
}  # fmt: skip
#: What is wrong with either, or with ``pairs`` or ``one`` alone.
BOTH = {
    "no release": {"signal": "atom.global.add.relaxed.gpu"},
    "a release of one CTA": {"signal": "atom.global.add.release.cta"},
    "no signal": {"gives": "place < 0"},
    "no wait": {"until": ">= 0"},
    "no acquire": {"spin": "spin.global.relaxed.gpu"},
    "an acquire of one CTA": {"spin": "spin.global.acquire.cta"},
    "the others do not wait": {"behind": ""},
    "the others are not waited for": {"before": ""},
    "waits for more": {"until": ">= {n}"},
    "released before the store": {"before": "", "late": "st.global sums[{to} + tid * 2 : 2], 2.0"},
}
PAIRS = {
    "the slot of the next one": {"to": "(ours + 1) * 128"},
    "the last one's slot too": {"gives": "place < {n}", "to": "(ours + 1) * 128"},
    "slots that overlap": {"to": "ours * 126"},
    "the flag of the next one": {"told": "ours + 1"},
    "waits at its own": {"asked": "ours"},
    "reads what is the next team's": {"reads": _READ.format(0, "(ours + 1) * 128")},
    "the first one takes as well": {"takes": "place >= 0", "asked": "team * {n}"},
    "the last one looks elsewhere": {"asked": "select(place == {n} - 1, team * {n}, ours - 1)"},
}
ONE = {
    "waits for one less": {"until": ">= {n} - 2"},
    "the next team's flag": {"told": "team + 1"},
}
WRONG = {**BOTH, **PAIRS, **ONE}
#: Right in block groups of two.
OF_THREE = {"the slot of the next one", "slots that overlap", "the last one looks elsewhere"}
CASES = [
    *((2, {}, x) for x in BOTH), *((3, _ONE, x) for x in BOTH),
    *((n, {}, x) for x in PAIRS for n in (2, 3)), *((n, _ONE, x) for x in ONE for n in (2, 3)),
]  # fmt: skip


def _text(n: int, changed: dict[str, str]) -> str:
    parts = {**_USUAL, **changed}
    if changed.get("told") == "team" or changed.get("asked") == "team":
        reads = [_READ.format(k, f"(ours - {k}) * 128") for k in range(1, n)]
        parts["reads"] = changed.get("reads", "\n".join(reads))
    for _ in range(2):
        parts = {key: part.replace("{n}", str(n)).replace("{to}", parts["to"]) for key, part in parts.items()}
    return _ROWS.format(n=n, **parts)


def _kernel(n: int, changed: dict[str, str]) -> Kernel:
    (kernel,) = parse(_text(n, changed), "rows")
    return kernel


def _any_member(kernel: Kernel) -> Verdict:
    """The verdict for every size by any member of a block group; no launch is checked for it."""
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    return (
        each_cluster_alone(problem, Policy.PRACTICAL).verdict if problem.modular_systems else Verdict.UNKNOWN
    )


@cache
def _launches(kernel: Kernel) -> frozenset[Verdict]:
    """The verdicts on small launches."""
    sizes = [{p.name: size for p in kernel.params} for size in (1, 2)]
    return frozenset(check_kernel(kernel, x, Policy.PRACTICAL, scope=ScopeKind.EXACT).verdict for x in sizes)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", GOOD)
def test_rows_are_proved_and_small_launches_are(name: str, n: int) -> None:
    kernel = _kernel(n, GOOD[name])
    assert in_rows(kernel) == group_size(kernel) == n
    assert _any_member(kernel) is Verdict.PROVED
    assert _launches(kernel) == {Verdict.PROVED}
    assert ir.sample(kernel, {"T": 2, "K": 1}, runs=20).harms == ()


@pytest.mark.parametrize(("n", "form", "name"), CASES)
def test_what_a_small_launch_refutes_is_not_proved(n: int, form: dict[str, str], name: str) -> None:
    kernel = _kernel(n, {**form, **WRONG[name]})
    right = _launches(kernel) == {Verdict.PROVED}
    assert right is (n == 2 and name in OF_THREE)
    assert right or _any_member(kernel) is not Verdict.PROVED


# ---------------------------------------------------------------- random ones

SEEDS = range(2000, 2050)


class _Row(Team):
    """Random kernels whose block groups are rows of the grid."""

    def text(self) -> str:
        found = super().text()
        size = next(x for x in self.sizes if f"block % {x}\n" in found)
        found = found.replace(f"[T * {size}]", f"[{size}, T]").replace(f"(block // {size})", "block.y")
        return found.replace(f"block % {size}\n", "block.x\n")


@cache
def _random(seed: int) -> tuple[Kernel, Verdict]:
    (kernel,) = parse(_Row(seed).text(), f"row{seed}")
    assert in_rows(kernel) > 1
    return kernel, _any_member(kernel)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_proved_is_right_in_small_launches(seed: int) -> None:
    kernel, verdict = _random(seed)
    if verdict is Verdict.PROVED:
        assert _launches(kernel) == {Verdict.PROVED}
        assert ir.sample(kernel, {"T": 2}, runs=10).harms == ()


def test_random_rows_are_of_both_kinds() -> None:
    right = [seed for seed in SEEDS[::2] if _random(seed)[1] is Verdict.PROVED]
    assert len(SEEDS) // 16 < len(right) < len(SEEDS) * 7 // 16
