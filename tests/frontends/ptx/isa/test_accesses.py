"""Each row of the table that accesses memory, against each analysis that has to see accesses."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.global_memory.discards import read_after_discard
from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import Origins
from syncverify.frontends.ptx.analysis.global_memory.read_only_loads import may_write
from syncverify.frontends.ptx.decode.table import refused
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import (
    Use,
    acts,
    effects,
    harmless,
    passes_on,
    reads,
    touches,
    writes,
)
from syncverify.frontends.ptx.isa.rows import Row, table
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Reg
from syncverify.frontends.ptx.syntax.operands import is_poll
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.isa.samples import all_rows, choices, function, registers_of, text

#: What the effects of the table's rows do: whoever adds one decides here.
REGISTERS = {"register", "data", "control", "warp", "matrix registers", "register pool", "grid", "barrier"}
MEMORY = {
    "memory read", "memory write", "memory atomic", "texture read", "matrix read", "matrix write", "matrix",
    "async copy", "async store", "async group", "mbarrier", "tensormap", "tensor memory", "memory local",
    "hint", "fence",
}  # fmt: skip
#: Words of a name that say that memory is read, or written, on grounds of its own.
READ, WRITTEN = ("ld", "ldu", "atom", "red", "load"), ("st", "atom", "red", "store", "discard")
OPCODES = sorted(o for o, rows in table().items() if any(r.effect in MEMORY for r in rows))


def samples(row: Row) -> list[tuple[str, Instr]]:
    """Modelled instructions of a row, with their text."""
    lines = [line for words in choices(row, most=3) if (line := text(row, words, optional=True)) is not None]
    made = [(line, function(line)) for line in lines]
    return [(line, f.body[0]) for line, f in made if refused(f.body[0], f) is None]


def test_each_effect_is_one_that_says_what_it_does() -> None:
    assert {row.effect for row in all_rows()} <= REGISTERS | MEMORY


def test_what_is_no_instruction_does_everything() -> None:
    at = Mem(Reg("%rd1"))
    strange = Instr("st", ("nowhere",), (at,), 1)
    assert [t.use for t in touches(strange)] == [Use.BOTH]
    assert acts(strange) and passes_on(strange)
    assert reads(strange, "global") == writes(strange, "shared") == [at]


@pytest.mark.parametrize("opcode", OPCODES)
def test_names_and_effects_agree(opcode: str) -> None:
    """The words of the name are the second opinion: neither list is made of the other."""
    for row in table()[opcode]:
        named = {row.opcode, *(w.partition("_")[0] for w in row.head)}
        for line, i in samples(row):
            found = {t.use for t in touches(i)}
            if any(isinstance(x, Mem) for x in i.operands) and "prefetch" not in row.name:
                assert not named.intersection(READ) or any(Use.READS & u for u in found), line
                assert not named.intersection(WRITTEN) or any(Use.WRITES & u for u in found), line


@pytest.mark.parametrize("opcode", OPCODES)
def test_each_access_is_seen(opcode: str) -> None:
    for row in table()[opcode]:
        for line, i in samples(row):
            aside = "bulk" in i.mods or "tensormap" in effects(i)
            places = [t for t in touches(i) if t.use and t.space in ("global", "generic")]
            if places and not aside:
                assert used_in_global(i) is not None, line
            if places and not aside and effects(i).isdisjoint({"texture read"}):
                assert acts(i), line
            if writes(i, "shared"):
                assert acts(i) and passes_on(i), line
            if writes(i, "global") and "tensor" not in i.mods and "tensormap" not in effects(i):
                assert may_write(i), line


@pytest.mark.parametrize("opcode", OPCODES)
def test_each_read_of_global_memory_is_one_after_a_discard(opcode: str) -> None:
    for row in table()[opcode]:
        for line, i in samples(row)[:4]:
            plain = [at for at in reads(i, "global") if not at.coords]
            if plain and i.op != "discard":
                assert _after_a_discard(line), line


def _after_a_discard(line: str) -> bool:
    """Whether an instruction may read what is destroyed before it, at an address that nobody knows."""
    body = f".reg .b64 %rd99; {registers_of(line)}\ndiscard.global.L2 [%rd99], 128;\n{line}\nret;"
    head = ".version 9.4\n.target sm_107a\n.address_size 64\n"
    flow = Flow(parse(f"{head}.visible .entry k()\n{{\n{body}\n}}\n", "t.ptx").entries[0])
    return read_after_discard(flow, Origins(flow, True)) is not None


@pytest.mark.parametrize("opcode", OPCODES)
def test_what_accesses_shared_memory_is_not_harmless(opcode: str) -> None:
    for row in table()[opcode]:
        for line, i in samples(row):
            seen = {t.space.partition("::")[0] for t in touches(i) if t.use} - {"local", "param", "const"}
            assert not (seen and harmless(i)) or is_poll(i), line
