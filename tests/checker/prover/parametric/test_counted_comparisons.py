"""Comparisons that are added to a count: an unknown 0 or 1 at first, and decided where that fails."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ptx.analysis.slicing.conditional_lengths import added_comparisons
from syncverify.frontends.ptx.syntax.parser import parse as parse_ptx
from syncverify.ir.evaluate import counting, truth
from syncverify.ir.expr import Call, walk
from syncverify.ir.nodes import Let
from syncverify.ir.text.parser import parse
from syncverify.symbolic.context import SymbolicContext

KERNEL = """
kernel k {{
  launch grid [blocks] block [64]
  param blocks : i32 = 2
  param each : i32 = 2
  param more : i32 = 1
  assume blocks >= 1
  assume each >= 0
  assume more >= 0
  assume more <= blocks
  shared s : f32[2, 32]
  mbarrier full[2]
  mbarrier empty[2]
  let n = each + (block < more)
  if tid == 0 {{
    for i in 0..2 {{
      mbarrier.init full[i], 1
      mbarrier.init empty[i], 1
    }}
  }}
  bar.sync 0
  role produce warps 0..1 {{
    if lane == 0 {{
      for i in 0..{produced} {{
        mbarrier.wait empty[i % 2], (i // 2 + 1) % 2
        mbarrier.arrive full[i % 2]
      }}
    }}
  }}
  role consume warps 1..2 {{
    if lane == 0 {{
      for i in 0..n {{
        mbarrier.wait full[i % 2], (i // 2) % 2
        mbarrier.arrive empty[i % 2]
      }}
    }}
  }}
}}
"""


def verdict(produced: str) -> tuple[Verdict, ScopeKind]:
    (k,) = parse(KERNEL.format(produced=produced), "k")
    report = check_kernel(k, scope=ScopeKind.ALL)
    return report.verdict, report.scope.kind


@pytest.mark.parametrize("produced", ["n", "each + (block < more)", "each + (more > block)"])
def test_the_same_comparison_is_the_same_number(produced: str) -> None:
    assert verdict(produced) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize(
    "produced", ["each + (block >= more)", "each + (block + 1 < more)", "each + 1 - (block < more)"]
)
def test_another_comparison_is_another_number(produced: str) -> None:
    assert verdict(produced)[0] is Verdict.REFUTED


@pytest.mark.parametrize("produced", ["each + 1 - (block >= more)", "each + select(block < more, 1, 0)"])
def test_where_the_answer_matters_it_is_decided(produced: str) -> None:
    """The numbers are distinguished at first, which fails; then the comparison is a question."""
    assert verdict(produced) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("each + (block < more)", 1),
        ("(block >= more) + each - (block < each)", 2),
        ("block < more", 0),  # no sum
        ("each * (block < more)", 0),
        ("each + (block == more)", 0),
        ("each + (tid < more)", 0),  # lanes may differ
        ("each + (block < more and 1)", 0),
    ],
)
def test_which_comparisons_are_numbers(text: str, numbers: int) -> None:
    (k,) = parse(KERNEL.format(produced="n").replace("each + (block < more)", text, 1), "k")
    let = next(s for s in k.body if isinstance(s, Let))
    e = counting(let.value, {"block", "each", "more"})
    assert sum(isinstance(x, Call) and x.name == "truth" for x in walk(e)) == numbers


def test_truth_of_numbers_and_sizes() -> None:
    assert [truth(x) for x in (-1, 0, 5)] == [0, 1, 1]
    space = SymbolicContext()
    a = space.symbol("a", 0, 9)
    assert (truth(a), truth(a - 10)) == (1, 0)
    space.havocs = True
    assert truth(a - 5) is truth(a - 5) and truth(a - 5) is not truth(a - 6)
    assert space.bounds(truth(a - 5)) == (0, 1)


PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 a, .param .u32 b)
{{
  .reg .pred %p<4>; .reg .b32 %r<9>;
  ld.param.u32 %r1, [a];
  ld.param.u32 %r2, [b];
  mov.u32 %r3, {place};
  {between}
  setp.{compare} %p1, %r3, %r2;
  selp.u32 %r4, {values}, %p1;
  {use}
  ret;
}}
"""


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, True),
        ({"compare": "ge.u32"}, True),
        ({"compare": "eq.s32"}, False),
        ({"place": "%tid.x"}, False),
        ({"values": "0, 1"}, False),
        ({"use": "setp.ne.s32 %p2, %r4, 0;"}, False),
        ({"use": "add.s32 %r5, %r4, %r1; @%p1 add.s32 %r5, %r5, 1;"}, False),
        ({"between": "@%p3 mov.u32 %r3, 7;"}, False),
        ({"between": "activemask.b32 %r2;"}, False),
    ],
)
def test_which_predicates_of_ptx_are_numbers(changed: dict[str, str], counts: bool) -> None:
    parts = {"place": "%ctaid.x", "between": "", "compare": "lt.s32", "values": "1, 0",
             "use": "add.s32 %r5, %r4, %r1;"} | changed  # fmt: skip
    module = parse_ptx(PTX.format(**parts), "k.ptx")
    body = module.entries[0].body
    assert added_comparisons(body) == (frozenset({"%p1"}) if counts else frozenset())
