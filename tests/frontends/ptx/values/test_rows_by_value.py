"""Each form of the table that makes numbers of numbers, beside the second reader.

The two share the syntax tree alone. No form is listed here: a row that is added is judged. Whatever the
front end holds is the number that the second reader computes, or it is not known. So a modifier that one of
them reads and the other does not is found, where it changes a number.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from syncverify.frontends.ptx.decode.table import refused
from syncverify.frontends.ptx.isa.rows import table
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import CARRY, results, sources
from syncverify.frontends.ptx.values.register_values import lanes_of, per_lane
from syncverify.model.events import Ev
from syncverify.simulate.ptx import Launch, buffer, run
from syncverify.simulate.ptx.harm import CannotExecute
from tests.frontends.ptx.execute_helpers import system
from tests.frontends.ptx.isa.samples import TYPES, choices, function, text
from tests.sweeps import part_of

LANES = 32
#: Addresses: each reader has windows of its own.
_PLACED = {"cvta", "getctarank", "isspacep", "mapa"}
OPCODES = sorted(
    o for o, rows in table().items() if any(r.effect == "register" for r in rows) and o not in _PLACED
)
#: One of so many opcodes is looked at in every run.
EVERY = 4
#: What begins with a carry.
_CARRY = ".reg .b32 %carried; add.cc.u32 %carried, %laneid, 0xfffffff0;"
_WIDTHS = {"p": 1, "c": 8, "h": 16, "r": 32, "rd": 64, "f": 32, "d": 64}
_EDGES = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x3210, 0x7654, 0x5A5A, 0x1010101)
#: Registers of the texts around an instruction.
_OWN = ".reg .b32 %word; .reg .b64 %long;"
_HEAD = ".version 9.4\n.target sm_90a\n.address_size 64\n"
Numbers = Mapping[str, Sequence[int]]


def _lines(opcode: str) -> Iterator[str]:
    """Modelled instructions of an opcode, whose registers have names of their own."""
    for row in table()[opcode]:
        for words in choices(row, most=8):
            line = text(row, words, optional=True)
            if row.effect == "register" and line is not None and not re.search(r"\[|%q", line):
                f = function(line)
                if refused(f.body[0], f) is None:
                    yield re.sub(r"%([a-z]+)(\d+)", r"%v_\1_\2", line)


def _bits(register: str) -> int:
    return _WIDTHS[register.split("_")[1]]


def _declared(registers: Sequence[str]) -> str:
    return " ".join(f".reg .{TYPES[r.split('_')[1]]} {r};" for r in registers)


def _parsed(line: str) -> Instr:
    names = sorted(set(re.findall(r"%v_[a-z]+_\d+", line)))
    return function(f"{_declared(names)} {line}").body[0]


def _drawn(bits: int, draw: random.Random) -> int:
    top = 1 << bits
    edges = (*_EDGES, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1)
    return (draw.choice(edges) if draw.random() < 0.7 else draw.getrandbits(64)) % top


def _read_by_front_end(line: str, given: Numbers, made: Sequence[str]) -> dict[str, list[Any]]:
    """What each lane's registers hold behind an instruction."""
    body, params, values = [], [], {}
    for n, (r, numbers) in enumerate(given.items()):
        bits, letter = _bits(r), r.split("_")[1]
        values[f"i{n}"] = per_lane(list(numbers))
        params.append(f".param .u{32 if bits == 1 else bits} i{n}")
        type_ = f"f{bits}" if letter in "fd" else f"u{bits}"
        if bits == 1:
            body.append(f"ld.param.u32 %word, [i{n}]; setp.ne.u32 {r}, %word, 0;")
        else:
            body.append(f"ld.param.{type_} {r}, [i{n}];")
    body += [line, "bar.sync 0;"]
    for r in made:  # so that each matters
        letter, bits = r.split("_")[1], _bits(r)
        copy = f"mov.b{bits} %{'word' if bits == 32 else 'long'}, {r};" if letter in "fd" else ""
        held = ("%word" if bits == 32 else "%long") if letter in "fd" else r
        if letter == "c":
            copy, held, bits = f"cvt.u32.u8 %word, {r};", "%word", 32
        asks = f"{copy} setp.eq.u{bits} %asked, {held}, 3; @%asked bar.sync 1;"
        body.append(f"@{r} bar.sync 1;" if letter == "p" else asks)
    head = f"{_declared(list(dict.fromkeys((*given, *made))))} {_OWN} .reg .pred %asked;"
    s = system("\n".join([head, *body, "ret;"]), LANES, values, params=", ".join(params))
    out: dict[str, list[Any]] = {r: [None] * LANES for r in made}
    for c, agent in zip(s.info.classes, s.agents(), strict=True):
        while agent.step(0)[0] is not Ev.BARRIER_SYNC:
            pass
        for r, lanes in out.items():
            found = lanes_of(agent.r[s.program.slots[r]])
            lanes[:] = [found[i] if c.lanes >> i & 1 else x for i, x in enumerate(lanes)]
    return out


def _read_by_second(line: str, given: Numbers, made: Sequence[str]) -> dict[str, list[int]]:
    """The same by the second reader."""
    body, params = [], [".param .u64 out"]
    for n, r in enumerate(given):
        params.append(f".param .u64 i{n}")
        body.append(f"ld.param.u64 %at, [i{n}]; mad.wide.u32 %at, %t, 8, %at; ld.global.u64 %long, [%at];")
        body.append(_moved_in(r))
    body += [line, f"ld.param.u64 %at, [out]; mad.wide.u32 %at, %t, {8 * len(made)}, %at;"]
    body += [f"{_moved_out(r)} st.global.u64 [%at+{8 * n}], %long;" for n, r in enumerate(made)]
    head = f"{_declared(list(dict.fromkeys((*given, *made))))} {_OWN} .reg .b32 %t; .reg .b64 %at;"
    kernel = "\n".join([head, "mov.u32 %t, %tid.x;", *body, "ret;"])
    out = buffer(np.zeros(LANES * len(made), np.uint64))
    columns = [buffer(np.array(numbers, np.uint64)) for numbers in given.values()]
    whole = _HEAD + f".visible .entry k({', '.join(params)})\n{{\n{kernel}\n}}\n"
    ended = run(whole, "k", Launch(block=(LANES, 1, 1), grid=(1, 1, 1), params=(out, *columns)), seed=1)
    assert ended.harm is None, ended.harm
    words = [int(x) for x in ended.memory(out)]
    return {r: words[n :: len(made)] for n, r in enumerate(made)}


def _moved_in(r: str) -> str:
    match r.split("_")[1]:
        case "p":
            return f"setp.ne.u64 {r}, %long, 0;"
        case "f":
            return f"cvt.u32.u64 %word, %long; mov.b32 {r}, %word;"
        case "rd" | "d":
            return f"mov.b64 {r}, %long;"
    return f"cvt.u{_bits(r)}.u64 {r}, %long;"


def _moved_out(r: str) -> str:
    match r.split("_")[1]:
        case "p":
            return f"selp.u64 %long, 1, 0, {r};"
        case "f":
            return f"mov.b32 %word, {r}; cvt.u64.u32 %long, %word;"
        case "rd" | "d":
            return f"mov.b64 %long, {r};"
    return f"cvt.u64.u{_bits(r)} %long, {r};"


def differing(opcode: str) -> list[str]:
    """Where the front end holds another number than the second reader computes."""
    draw, wrong = random.Random(zlib.crc32(opcode.encode())), []
    for line in dict.fromkeys(_lines(opcode)):
        i = _parsed(line)
        made = [name for name in dict.fromkeys(results(i)) if name != CARRY]
        given = {r: [_drawn(_bits(r), draw) for _ in range(LANES)] for r in dict.fromkeys(sources(i))}
        whole = f"{_CARRY} {line}" if opcode in ("addc", "subc", "madc") else line
        try:
            second = _read_by_second(whole, given, made)
        except CannotExecute:
            continue  # of newer architectures, or of floats that it does not have
        first = _read_by_front_end(whole, given, made)
        for r in made:
            for lane, (x, y) in enumerate(zip(first[r], second[r], strict=True)):
                by_zero = opcode in ("div", "rem") and 0 in [numbers[lane] for numbers in given.values()]
                if x.__class__ in (int, bool) and int(x) != y and not by_zero:
                    wrong.append(f"{line} {r} of lane {lane}: {int(x):#x}, the second reader has {y:#x}")
    return wrong


@pytest.mark.parametrize("opcode", part_of(OPCODES, EVERY))
def test_numbers_are_those_of_the_second_reader(opcode: str) -> None:
    assert differing(opcode) == []


@pytest.mark.slow
@pytest.mark.parametrize("opcode", OPCODES)
def test_all_numbers_are_those_of_the_second_reader(opcode: str) -> None:
    assert differing(opcode) == []
