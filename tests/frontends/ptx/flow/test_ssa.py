"""Versions of registers, and where ways that parted meet again."""

from __future__ import annotations

from random import Random

import pytest

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Imm
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n{regs}{body}\nret;\n}}\n"


def flow_of(body: str) -> Flow:
    text = HEAD.format(regs=".reg .pred %p<9>;\n.reg .b32 %r<9>;\n", body=body)
    return Flow(parse(text, "k.ptx").entries[0])


def drawn(rng: Random) -> Flow:
    """A function of a few blocks that write one register, with jumps at random."""
    n = rng.randint(3, 7)
    lines = []
    for b in range(n):
        lines.append(f"L{b}:")
        if rng.random() < 0.5:
            lines.append(f"mov.u32 %r1, {b + 1};")
        lines.append("mov.u32 %r2, %r1;")
        if rng.random() < 0.75:
            lines.append(f"@%p{b % 3} bra L{rng.randrange(n)};")
        elif rng.random() < 0.4:
            lines.append(f"bra L{rng.randrange(n)};")
    return flow_of("\n".join(lines))


def reaching(flow: Flow, k: int) -> set[int]:
    """The writes of ``%r1`` that may be the last before an instruction, by walking backwards; -1 for none."""
    found: set[int] = set()
    seen: set[int] = set()
    work = [(flow.block_of[k], k)]
    while work:
        block, before = work.pop()
        b = flow.blocks[block]
        for j in range(before - 1, b.lo - 1, -1):
            ops = flow.body[j].operands
            if flow.body[j].op == "mov" and isinstance(ops[1], Imm):
                found.add(j)
                break
        else:
            if block == 0:
                found.add(-1)
            for p in b.pred:
                if p in flow.reached and p not in seen:
                    seen.add(p)
                    work.append((p, flow.blocks[p].hi))
    return found


def origins(flow: Flow, v: int) -> set[int]:
    """The writes that a version may come from."""
    found: set[int] = set()
    seen: set[int] = set()
    work = [v]
    while work:
        x = work.pop()
        if x in seen:
            continue
        seen.add(x)
        if flow.versions.writer[x] >= 0:
            found.add(flow.versions.writer[x])
        elif flow.versions.is_unset(x):
            found.add(-1)
        else:
            work += [y for _, y in flow.versions.merged(x)]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_versions_come_from_the_writes_that_reach(seed: int) -> None:
    flow = drawn(Random(seed))
    for k, i in enumerate(flow.body):
        if flow.block_of[k] in flow.reached and i.op == "mov" and not isinstance(i.operands[1], Imm):
            v = flow.versions.read("%r1", k)
            assert origins(flow, v) == reaching(flow, k)
            if flow.versions.writer[v] < 0 and not flow.versions.is_unset(v):
                assert flow.dominates(flow.versions.block[v], flow.block_of[k])


def test_a_loop_left_in_different_iterations() -> None:
    flow = flow_of(
        "A: add.u32 %r1, %r1, 1; @%p1 bra C; B: @%p2 bra A; bra D; C: mov.u32 %r2, 1; D: mov.u32 %r3, %r1;"
    )
    a, b, c, d = (flow.block_of[flow.function.labels[x]] for x in "ABCD")
    for branch in (a, b):
        found = flow.divergence.parting(branch)
        assert found.loops == {0} and {c, d} <= found.joins
    inner = flow_of("A: @%p1 bra C; add.u32 %r1, %r1, 1; C: @%p2 bra A;")
    found = inner.divergence.parting(inner.block_of[0])
    assert not found.loops and found.joins == {inner.block_of[inner.function.labels["C"]]}
