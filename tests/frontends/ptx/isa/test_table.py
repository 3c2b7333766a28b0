"""The table of instructions: every row is well formed, and no modifier is left unread."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from syncverify.frontends.ptx.decode.effects import Effect, Unsupported
from syncverify.frontends.ptx.decode.global_access import scope_of, semantics
from syncverify.frontends.ptx.decode.memory import decode_access
from syncverify.frontends.ptx.decode.table import EFFECT_OPS, decode
from syncverify.frontends.ptx.isa.match import Form, Problem, forms, match
from syncverify.frontends.ptx.isa.rows import Role, Row, table
from syncverify.frontends.ptx.syntax.nodes import Instr
from tests.frontends.ptx.isa.samples import all_rows, choices, function, text

#: Effects of which nothing beyond registers is left, or which other parts of the front end follow.
_WITHOUT_EVENTS = {"register", "data", "control", "hint", "warp", "matrix registers", "texture read"}
_ACCESSES = {"ld", "ldu", "st", "atom", "red", "discard"}


@pytest.mark.parametrize("opcode", sorted(table()))
def test_rows_say_who_reads_each_modifier(opcode: str) -> None:
    for row in table()[opcode]:
        assert row.effect
        assert row.chapter
        for slot in row.slots:
            assert slot.words
            assert (slot.role is Role.READ) == (not slot.reason)


@pytest.mark.parametrize("opcode", sorted(table()))
def test_what_a_row_describes_is_of_that_row(opcode: str) -> None:
    for row in table()[opcode]:
        for words in choices(row):
            line = text(row, words)
            if line is None:
                continue
            f = function(line)
            form = match(f.body[0], f.registers)
            assert not isinstance(form, Problem), line
            assert form.mods == f.body[0].mods, line


def test_what_has_events_has_a_decoder() -> None:
    for row in all_rows():
        modelled = not row.unmodelled and row.effect not in _WITHOUT_EVENTS
        assert not modelled or row.opcode in EFFECT_OPS | _ACCESSES, row.name


@pytest.mark.parametrize("opcode", sorted(table()))
def test_unmodelled_forms_are_never_decoded(opcode: str) -> None:
    for row in table()[opcode]:
        for words in choices(row, most=3):
            line = text(row, words)
            if line is None:
                continue
            f = function(line)
            form = match(f.body[0], f.registers)
            assert isinstance(form, Form)
            if form.unmodelled is not None:
                found = decode(f.body[0], f)
                assert isinstance(found, Unsupported), line
                assert form.unmodelled in found.reason


#: By opcode, words that say what holds without them (PTX ISA: the defaults), and where nothing else can be.
_DEFAULTS = {
    ("atom", "gpu"), ("atom", "relaxed"), ("red", "gpu"), ("red", "relaxed"), ("fence", "acq_rel"),
    ("barrier", "acquire"), ("barrier", "release"), ("multimem", "global"), ("st", "cluster"),
}  # fmt: skip


#: By effect, what judges the modifiers of instructions that have no event: they are executed, or nobody asks.
_BY_VALUE = {
    "register": "their numbers beside the second reader's (values/test_rows_by_value.py)",
    "data": "floats, which are data whatever they say; the reader's beside a GPU (ptx_bits.py)",
    "warp": "drawn programs that the second reader executes (analysis/registers/test_drawn_instructions.py)",
    "matrix registers": "results that are data whatever they say",
    "matrix read": "by wmma: as plain loads of the same bytes",
    "matrix write": "by wmma: as plain stores of the same bytes",
    "hint": "nothing that a verdict rests on",
    "control": "drawn programs: the second reader goes the same ways (registers/test_drawn_loops.py)",
}
#: Spaces in which accesses may have no event: a thread's own, what nobody writes, and global memory, which is
#: followed by another decoder where blocks share it (``decode.global_access``; random programs of engines).
#: ``discard`` names global memory alone.
_UNFOLLOWED = {"local", "param", "param::entry", "param::func", "const", "global"}


@pytest.mark.parametrize("opcode", sorted(table()))
def test_each_modifier_is_noticed(opcode: str) -> None:
    """Without one of its modifiers the front end makes something else of an instruction: another effect,
    another access, or no instruction. Otherwise the table says why the modifier does not matter.

    An instruction without an event is no more here than its name. ``_BY_VALUE`` says what judges it instead.
    """
    for row in table()[opcode]:
        if row.unmodelled:
            continue
        for words in choices(row, most=6):
            line = text(row, words)
            if line is None:
                continue
            before = _meaning(line)
            if before is _ONLY_NAMED:
                own = row.effect.startswith("memory") and not _UNFOLLOWED.isdisjoint(
                    line.split()[0].split(".")
                )
                assert own or opcode == "discard" or row.effect in _BY_VALUE, line
                continue
            mods = (*row.head, *(w for _, w in words))
            for at, (slot, word) in enumerate(words, len(row.head)):
                if slot.role is not Role.READ:
                    continue
                without = (*mods[:at], *mods[at + 1 :])
                rest = line.partition(" ")[2]
                after = _meaning(f"{'.'.join((opcode, *without))} {rest}")
                if after == before:
                    assert (opcode, word) in _DEFAULTS, (line, word)


def test_a_modifier_that_nobody_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If barriers had the same event with and without ``.aligned``."""
    monkeypatch.setattr("tests.frontends.ptx.isa.test_table._closed", lambda _: None)
    _meaning.cache_clear()
    try:
        with pytest.raises(AssertionError):
            test_each_modifier_is_noticed("barrier")
    finally:
        _meaning.cache_clear()


#: What ``_meaning`` gives where the front end makes no event of an instruction.
_ONLY_NAMED = "no event"


@cache
def _meaning(line: str) -> Any:
    """What the front end makes of an instruction, in a form that can be compared."""
    f = function(line)
    i = f.body[0]
    if not forms(i.op, i.mods) or isinstance(match(i, f.registers), Problem):
        return "no instruction"
    access = decode_access(i)
    if access is not None:
        return access, semantics(i), scope_of(i)
    found = decode(i, f)
    if isinstance(found, Unsupported):
        return found
    if isinstance(found, Effect):
        return found.operands, _closed(found.emit)
    return _ONLY_NAMED


def _closed(emit: Any) -> Any:
    """What an effect's function has been given."""
    cells = [c.cell_contents for c in emit.__closure__ or ()]
    return emit.__qualname__, tuple(map(str, cells))


def test_instructions_are_looked_up_by_name() -> None:
    assert {"ld", "mbarrier", "wgmma", "tcgen05", "vadd4"} <= table().keys()
    assert not forms("nop", ())
    assert isinstance(match(Instr("nop", (), (), 1), {}), Problem)
    row: Row = table()["elect"][0]
    assert row.section.endswith("elect.sync")


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("cvt.sat.f32.f32 %f1, %f2;", True),
        ("cvt.rn.sat.f32.s32 %f1, %r2;", True),
        ("cvt.sat.u8.s32 %r1, %r2;", True),
        ("cvt.sat.s32.s32 %r1, %r2;", False),
    ],
)
def test_only_what_has_a_range_to_keep_saturates(line: str, known: bool) -> None:
    f = function(line)
    assert isinstance(match(f.body[0], f.registers), Problem) != known


@pytest.mark.parametrize("space", ["", ".global", ".shared", ".local", ".const"])
@pytest.mark.parametrize("hint", [".L1::evict_last", ".L2::128B"])
def test_hints_of_caches_are_for_global_memory(space: str, hint: str) -> None:
    f = function(f"ld{space}{hint}.u32 %r1, [%d1];")
    assert isinstance(match(f.body[0], f.registers), Problem) == (space not in ("", ".global"))
