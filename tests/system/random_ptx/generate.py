"""A program by its seed: right, with a planted mistake, or with random edits of its text."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from tests.system.random_ptx.arrays_by_data import ARRAY_FAMILIES
from tests.system.random_ptx.block_words import BLOCK_WORD_FAMILIES
from tests.system.random_ptx.boxes import BOX_FAMILIES
from tests.system.random_ptx.bypasses import BYPASS_FAMILIES, HEAD_FAMILIES
from tests.system.random_ptx.data_words import DATA_FAMILIES
from tests.system.random_ptx.engines import ENGINE_FAMILIES
from tests.system.random_ptx.families import FAMILIES
from tests.system.random_ptx.host_contracts import CONTRACT_FAMILIES
from tests.system.random_ptx.lane_sets import LANE_SET_FAMILIES
from tests.system.random_ptx.lane_values import LANE_VALUE_FAMILIES
from tests.system.random_ptx.open_sizes import OPEN_FAMILIES
from tests.system.random_ptx.strong_words import STRONG_FAMILIES
from tests.system.random_ptx.warpgroups import WARPGROUP_FAMILIES
from tests.system.random_ptx.writer import Program, Writer

#: Families by what they draw: numbers of a protocol by devious ways; what open sizes steer; what data steers;
#: operands of wgmma; boxes; words of a block; data that the host keeps in order; sets of lanes;
#: masks that travel; words that threads share by strong accesses;
#: places in several arrays that data says; several engines; barriers that threads bypass; and loops that
#: they leave at their heads behind those.
SETS = {
    "protocols": FAMILIES,
    "open": OPEN_FAMILIES,
    "data": DATA_FAMILIES,
    "wgmma": WARPGROUP_FAMILIES,
    "boxes": BOX_FAMILIES,
    "words": BLOCK_WORD_FAMILIES,
    "contracts": CONTRACT_FAMILIES,
    "lanes": LANE_SET_FAMILIES,
    "values": LANE_VALUE_FAMILIES,
    "strong": STRONG_FAMILIES,
    "arrays": ARRAY_FAMILIES,
    "engines": ENGINE_FAMILIES,
    "bypasses": BYPASS_FAMILIES,
    "heads": HEAD_FAMILIES,
}
#: From which set the programs of ``all`` come, by their seeds.
MIXED = ("protocols",) * 7 + ("open",) * 6 + ("data",) * 5 + ("wgmma", "boxes")
#: The same from this seed on: seeds below name what they named before.
MORE_FROM, MORE_MIXED = 6_000_000, (*MIXED, "words", "words", "words", "contracts", "contracts")

#: Of the programs with tensor maps those whose launch file has the boxes, which the host knows.
BOXES_GIVEN = 2 / 3

Pairs = tuple[tuple[str, str], ...]
#: What an edit puts for what besides, in programs of strong words.
STRONG_PAIRS: Pairs = (("acquire", "relaxed"), (".volatile", ""), (".cluster", ".cta"), (".cta", ".cluster"),
                       ("acq_rel", "release"), (".volatile", ".relaxed.cta"), ("atom.", "red."))  # fmt: skip


def program(seed: int, set_: str = "protocols") -> Program:
    """A third right, a third with a planted mistake, a third with random edits."""
    if set_ == "all":
        mixed = MIXED if seed < MORE_FROM else MORE_MIXED
        set_ = mixed[seed % len(mixed)]
    draw = random.Random(seed)
    families = SETS[set_]
    family = draw.choice(list(families))
    right = families[family](writer := Writer(seed))
    kind = draw.randrange(3)
    if kind == 0 or not writer.mistakes:
        made = right
    elif kind == 1:
        made = families[family](Writer(seed, draw.choice(writer.mistakes)))
    else:
        made = edited(right, draw)
    return replace(made, gives_boxes=draw.random() < BOXES_GIVEN)


def edited(right: Program, draw: random.Random) -> Program:
    """One or two edits of lines between the first label-free instruction and the end."""
    lines = right.text.splitlines()
    first = next(n for n, x in enumerate(lines) if "%warp, %thr" in x) + 1
    last = len(lines) - 2
    names = []
    for _ in range(draw.choice([1, 1, 2])):
        for _ in range(20):
            n = draw.randrange(first, last)
            new = _edit(lines[n], draw, STRONG_PAIRS if right.outcome else ())
            if new is not None:
                names.append(f"line {n + 1}: {lines[n].strip()} -> {new.strip() or 'nothing'}")
                lines[n] = new
                break
    return replace(right, text="\n".join(lines) + "\n", mistake="; ".join(names))


def _edit(line: str, draw: random.Random, more: Pairs) -> str | None:
    """A line changed, or None where the edit does not fit."""
    text = line.strip()
    if not text.endswith(";") or text.startswith((".", "call", "{")):
        return None
    match draw.randrange(7):
        case 0:
            return "    "
        case 1:
            numbers = list(re.finditer(r"(?<=[ \[+,])(\d+)(?=[;,\]])", line))
            if not numbers:
                return None
            m = draw.choice(numbers)
            value = int(m[1])
            new = draw.choice([value + 1, max(value - 1, 0), value ^ 1, value * 2, value ^ 32])
            return line[: m.start()] + str(new) + line[m.end() :]
        case 2:
            kinds = list(re.finditer(r"\.([us])(8|16|32)\b", line))
            if not kinds:
                return None
            m = draw.choice(kinds)
            if draw.random() < 0.6 or not text.startswith(("ld.", "st.")):
                new = f".{'us'['us'.index(m[1]) ^ 1]}{m[2]}"
            else:
                new = f".{m[1]}{draw.choice([8, 16, 32])}"
            return line[: m.start()] + new + line[m.end() :]
        case 3:
            if text.startswith("@!"):
                return line.replace("@!", "@", 1)
            return line.replace("@", "@!", 1) if text.startswith("@") else None
        case 4:
            return line + " " + text if not text.startswith(("bra", "@")) else None
        case 5:
            pairs = [
                *more,
                ("wait_group.read", "wait_group"),
                (".sync", ".arrive"),
                ("lt", "le"),
                ("ne.", "eq."),
                ("and.b32", "or.b32"),
                ("add.", "sub."),
                ("shr.", "shl."),
                ("clamp", "wrap"),
                ("mul.lo", "mul.hi"),
                ("release", "relaxed"),
            ]
            fitting = [(a, b) for a, b in pairs if a in text]
            if not fitting:
                return None
            a, b = draw.choice(fitting)
            return line.replace(a, b, 1)
        case _:
            registers = list(re.finditer(r"%(r|p)(\d+)\b", line))
            if not registers:
                return None
            m = draw.choice(registers)
            return (
                line[: m.start()] + f"%{m[1]}{max(int(m[2]) + draw.choice([-2, -1, 1]), 1)}" + line[m.end() :]
            )


__all__ = ["SETS", "edited", "program"]
