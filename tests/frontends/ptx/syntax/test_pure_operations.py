"""Each analysis takes pure instructions alone, and all of them are instructions."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.isa.rows import table
from syncverify.frontends.ptx.syntax import pure_operations as pure


@pytest.mark.parametrize("taken", [pure.REPEATABLE, pure.COMPARED, pure.IN_SPINS])
def test_an_analysis_takes_pure_instructions_alone(taken: frozenset[str]) -> None:
    assert taken < pure.PURE


def test_what_touches_memory_or_other_threads_is_not_pure() -> None:
    touching = {"ld", "st", "atom", "red", "shfl", "vote", "match", "activemask", "elect", "mbarrier", "cp"}
    assert not pure.PURE & touching
    assert not pure.KEEPS_ADDRESSES & touching


def test_pure_instructions_are_in_the_table_of_instructions() -> None:
    assert pure.PURE <= set(table())
