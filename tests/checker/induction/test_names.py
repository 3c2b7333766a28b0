"""Sizes that are called as the reading calls what it adds: the slots of a ring, the turns of a loop."""

from __future__ import annotations

import re

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.induction.program import cleaned
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.induction.acceptance import of_text
from tests.checker.induction.advanced import edited
from tests.checker.induction.test_read import RING

_SIZED = edited(
    edited(RING, "  param N", "  param D : i32 = 4\n  param N"), "  assume N", "  assume D >= 3\n  assume N"
)
_READ = "    for i in 0..N {\n      mbarrier.wait full"
_LONGER = _READ.replace("0..N", "0..N + D - 3")
_LOAD = "      for i in 0..N {\n        mbarrier.wait empty"
#: The readers make ``D - 3`` steps more than the loader, which is right where ``D`` is 3 alone.
BAD = edited(_SIZED, _READ, _LONGER)
GOOD = edited(BAD, _LOAD, _LOAD.replace("0..N", "0..N + D - 3"))


@pytest.mark.parametrize("right", [False, True])
def test_a_size_with_the_name_of_a_number_of_slots_is_any_number(right: bool) -> None:
    text = re.sub(r"\bD\b", "slots_3", GOOD if right else BAD)
    found = of_text(text)
    assert found.accepted == right and found.cause in ("", "no proof"), found
    (kernel,) = parse(text, "sized.syncir")
    wanted = Verdict.PROVED if right else Verdict.REFUTED
    assert check_kernel(kernel, {"B": 1, "N": 2, "slots_3": 4}).verdict is wanted


@pytest.mark.parametrize(
    "name", ["slots_3", "rounds_0", "turns_N_minus_1_by_minus_2", "u", "P", "P2", "P_fewer", "P3_fewer"]
)
def test_no_size_has_a_name_that_the_reading_gives(name: str) -> None:
    assert cleaned(name) == "_" + name


#: The loader hands on what begins at Q in steps of B below R; the readers take what begins at 0 below X.
_STRIDED = """kernel strided {
  launch grid [B] block [64]
  param B : i32 = 2
  param Q : i32 = 1
  param R : i32 = 4
  param X : i32 = 2
  assume B >= 1
  assume Q >= 0
  assume R >= Q + 1
  assume X >= 1
  mbarrier full
  mbarrier empty

  elect p
  role init warps 0..1 {
    if p {
      mbarrier.init full, 1
      mbarrier.init empty, 32
    }
  }
  bar.sync 0
  role load warps 0..1 {
    if p {
      let h = 0
      for r in Q..R step B {
        mbarrier.wait empty, h ^ 1
        mbarrier.arrive full
        h = h ^ 1
      }
    }
  }
  role math warps 1..2 {
    let h = 0
    for r in 0..X step B {
      mbarrier.wait full, h
      mbarrier.arrive empty
      h = h ^ 1
    }
  }
}
"""


@pytest.mark.parametrize("right", [False, True])
def test_turns_of_two_loops_have_two_names_whatever_sizes_are_called(right: bool) -> None:
    """``R_minus_Q`` is a size here, and no difference."""
    text = edited(_STRIDED, "0..X", "Q..R") if right else re.sub(r"\bX\b", "R_minus_Q", _STRIDED)
    found = of_text(text)
    assert found.accepted == right and found.cause in ("", "no proof"), found
    if not right:
        (kernel,) = parse(text, "sized.syncir")
        sizes = {"B": 1, "Q": 0, "R": 1, "R_minus_Q": 2}
        assert check_kernel(kernel, sizes).verdict is Verdict.REFUTED
