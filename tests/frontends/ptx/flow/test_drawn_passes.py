"""Programs beside what passes make of them: the second reader leaves the same in memory.

The programs are drawn ones of loops and branches (``test_drawn_loops.py``). A pass that writes an access or a
guard in another form, or gives values registers of their own, changes nothing that threads compute.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from syncverify.frontends.ptx.flow.address_spaces import with_spaces
from syncverify.frontends.ptx.flow.data_guards import with_data_guards_as_branches
from syncverify.frontends.ptx.flow.forward_stores import with_forwarded_stores
from syncverify.frontends.ptx.flow.joined_guards import with_joined_guards_apart
from syncverify.frontends.ptx.flow.joined_signs import with_signs_apart
from syncverify.frontends.ptx.flow.promote_locals import promoted
from syncverify.frontends.ptx.flow.values_apart import with_values_apart
from syncverify.frontends.ptx.syntax.nodes import Function, Module
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run
from tests.frontends.ptx.analysis.registers.test_drawn_loops import BLOCK, VISITS, Program, data_of, drawn

Pass = Callable[[Function], Function]
PASSES: list[Pass] = [
    promoted, with_values_apart, with_spaces, with_signs_apart, with_joined_guards_apart,
    with_data_guards_as_branches, with_forwarded_stores,
]  # fmt: skip
STEPS = 20_000


def _left(module: Module, program: Program, given: tuple[list[int], int]) -> bytes | None:
    """What an execution leaves in memory; None where it does not end well."""
    out = buffer(np.zeros(VISITS * program.stride // 8 + 2, np.uint64))
    params = (out, buffer(np.array(given[0], np.uint32)), given[1])
    done = run(module, "k", Launch((BLOCK, 1, 1), params=params, watches=frozenset()), seed=1, limit=STEPS)
    return None if done.harm is not None or done.limit else done.memory(out).tobytes()


def differing(seed: int) -> tuple[list[str], list[str]]:
    """The passes that change a program, each on top of those before, and those that change what it leaves."""
    draw = random.Random(seed)
    program = drawn(draw)
    given, module = data_of(draw), parse(program.text)
    left = _left(module, program, given)
    changed, wrong = [], []
    function = module.functions[0]
    for change in PASSES if left is not None else ():
        made = change(function)
        if made != function:
            changed.append(change.__name__)
            if _left(replace(module, functions=(made,)), program, given) != left:
                wrong.append(change.__name__)
        function = made
    return changed, wrong


@pytest.mark.parametrize("seed", [0, 6])
def test_passes_leave_what_programs_compute(seed: int) -> None:
    changed, wrong = differing(seed)
    assert len(changed) > 1 and wrong == []


@pytest.mark.slow
def test_passes_leave_what_many_programs_compute() -> None:
    found = {seed: differing(seed) for seed in range(100, 300)}
    assert {seed: wrong for seed, (_, wrong) in found.items() if wrong} == {}
    assert {name for changed, _ in found.values() for name in changed} == {x.__name__ for x in PASSES}
