"""What instructions read and write beside their operands: the condition code."""

from __future__ import annotations

from syncverify.frontends.ptx.isa.rows import Row, table
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import CARRY, results, sources
from tests.frontends.ptx.isa.samples import choices, function, text

#: Forms that read the carry, that write it, and that do both, as the ISA names them.
READ = {"addc", "subc", "madc.lo", "madc.hi"}
WRITTEN = {"add.cc", "sub.cc", "mad.lo.cc", "mad.hi.cc"}
BOTH = {"addc.cc", "subc.cc", "madc.lo.cc", "madc.hi.cc"}
SUMS = "Extended-Precision Integer Arithmetic Instructions"


def rows() -> list[Row]:
    return [row for some in table().values() for row in some]


def samples(row: Row) -> list[Instr]:
    found = [t for words in choices(row) if (t := text(row, words)) is not None]
    return [function(t).body[0] for t in found]


def test_each_form_of_the_chapter_reads_or_writes_the_carry_as_its_name_says() -> None:
    seen = set[str]()
    for row in (r for r in rows() if r.chapter == SUMS):
        for i in samples(row):
            form = i.name.rpartition(".")[0]
            seen.add(form)
            assert (CARRY in sources(i)) == (form in READ | BOTH), i.name
            assert (CARRY in results(i)) == (form in WRITTEN | BOTH), i.name
    assert seen == READ | WRITTEN | BOTH


def test_no_form_of_another_chapter_has_to_do_with_it() -> None:
    words = {"cc", "addc", "subc", "madc"}
    for row in (r for r in rows() if r.chapter != SUMS):
        named = {row.opcode, *row.head, *(w for s in row.slots for w in s.words)}
        assert named.isdisjoint(words), row.name
