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


@pytest.mark.parametrize("name", ["slots_3", "rounds_0", "turns_N_minus_1_by_minus_2", "u"])
def test_no_size_has_a_name_that_the_reading_gives(name: str) -> None:
    assert cleaned(name) == "_" + name
