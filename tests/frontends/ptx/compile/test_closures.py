"""What registers are made of, found once for all stores, beside the same found store by store."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from syncverify.frontends.ptx.analysis.global_memory import pointer_provenance
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.parser import parse

CORPUS = Path(__file__).resolve().parents[4] / "corpus" / "ptx"
HEAD = ".version 8.5\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 s[4096];\n"


def carried(program: Program, store: Instr) -> bool:
    """Whether what one store writes is made of a register that is written in a loop and outside of it."""
    names = {name for op in store.operands[1:] for name in registers(op)} & program.slice.registers
    for _ in program.body:
        for i in program.body:
            if not names.isdisjoint(results(i)):
                names |= {*sources(i)} & program.slice.registers
    where = [{program.flow.block_of[k] for k, i in enumerate(program.body) if n in results(i)} for n in names]
    return any(at & loop and at - loop for at in where for loop in program.flow.loops)


def drawn(seed: int) -> str:
    """A loop that counts, and stores of what is computed inside, outside, or by both."""
    g = Random(seed)
    names = [f"%v{n}" for n in range(6)]
    lines = [f"mov.u32 {n}, {g.randrange(9)};" for n in names]

    def some(count: int) -> list[str]:
        found = []
        for _ in range(count):
            a, b, c = (g.choice(names) for _ in range(3))
            found.append(g.choice([f"add.s32 {a}, {b}, {c};", f"xor.b32 {a}, {b}, {c};"]))
            if g.random() < 0.4:
                found.append(f"st.shared.u32 [%at+{16 * g.randrange(8)}], {g.choice(names)};")
        return found

    loop = ["mov.u32 %i, 0;", "L:", *some(g.randrange(4)), "add.s32 %i, %i, 1;", "setp.lt.s32 %p, %i, 5;",
            "@%p bra L;"]  # fmt: skip
    body = [*lines, "mov.u32 %t, %tid.x;", "mov.u32 %at, s;", "mad.lo.s32 %at, %t, 4, %at;", *some(2), *loop,
            *some(g.randrange(4)), "ret;"]  # fmt: skip
    return (
        f"{HEAD}.visible .entry k()\n{{\n.reg .pred %p;\n.reg .b32 %v<6>, %i, %t, %at;\n"
        + "\n".join(body)
        + "\n}\n"
    )


def of_text(text: str) -> Program:
    module = parse(text, "k.ptx")
    return Program(module, module.entries[0])


def agrees(program: Program) -> bool:
    """Both ways; whether something is left out."""
    stores = [i for k, i in enumerate(program.body) if program._only_stored(k)]
    one_by_one = any(carried(program, i) for i in stores)
    assert (program.without_stored_values is not None) == one_by_one
    return one_by_one


def test_stores_of_values_that_turns_of_loops_change() -> None:
    found = [agrees(of_text(drawn(seed))) for seed in range(120)]
    assert 20 < sum(found) < 100


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.ptx"))[::4], ids=lambda f: f.stem)
def test_stores_of_kernels(file: Path) -> None:
    agrees(of_text(file.read_text()))


def test_who_is_elected_is_asked_where_it_is_asked_for() -> None:
    program = of_text(drawn(1))
    assert "elections" not in vars(program)
    assert not program.elections.any and "elections" in vars(program)
    assert "elections" not in vars(program.for_sizes) or program.for_sizes is program


def wide(n: int) -> str:
    """Addresses of n copies of one loop-free chain."""
    body = [f"mad.wide.u32 %rd{k}, %t, {4 * k + 4}, %p0;\nst.global.u32 [%rd{k}], %t;" for k in range(n)]
    return (
        f"{HEAD}.visible .entry k(.param .u64 a)\n{{\n.reg .b32 %t;\n.reg .b64 %p0, %rd<{n}>;\n"
        "ld.param.u64 %p0, [a];\nmov.u32 %t, %tid.x;\n" + "\n".join(body) + "\nret;\n}\n"
    )


def test_an_index_that_is_overwritten_is_no_pointer() -> None:
    text = wide(2).replace(
        "mad.wide.u32 %rd1, %t, 8, %p0;", "mul.wide.u32 %rd1, %t, 8;\nadd.u64 %rd1, %p0, %rd1;"
    )
    origins = pointer_provenance.Origins(Flow(parse(text, "k.ptx").entries[0]), True)
    assert origins.known["%rd1"] == origins.known["%rd0"] and "%rd1" not in origins._apart
