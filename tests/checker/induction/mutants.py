"""Kernels with mistakes, made line by line: of the IR and of PTX.

Each operator takes the lines and a source of chance, and returns the lines with one mistake, or None where it
has no place. Some mistakes are none: whether a mutant is wrong is decided by running it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

Lines = list[str]
Operator = Callable[[Lines, random.Random], Lines | None]
#: What an operator of statements may take away, double or move.
SYNC = re.compile(
    r"^\s*(mbarrier\.|bulk\.|fence|bar\.|warp\.sync|cluster\.|wgmma|cp\.|ld\.shared|st\.shared|setmaxnreg)"
)
_PTX = re.compile(
    r"^\s*(@\S+\s+)?(mbarrier|cp\.async|fence|bar(rier)?\.|wgmma|st\.shared|ld\.shared|elect|setmaxnreg|add\.|"
    r"xor\.|setp\.|selp\.|shl\.|and\.|mov\.)"
)


def put(lines: Lines, i: int, *new: str) -> Lines:
    return [*lines[:i], *new, *lines[i + 1 :]]


def some(lines: Lines, rng: random.Random, which: re.Pattern[str]) -> int | None:
    found = [i for i, x in enumerate(lines) if which.search(x) and "{" not in x.replace("{%", "")]
    return rng.choice(found) if found else None


def operators(statement: re.Pattern[str]) -> tuple[Operator, ...]:
    """Statements deleted, doubled, exchanged with the next one, moved."""

    def delete(lines: Lines, rng: random.Random) -> Lines | None:
        i = some(lines, rng, statement)
        return None if i is None else put(lines, i)

    def double(lines: Lines, rng: random.Random) -> Lines | None:
        i = some(lines, rng, statement)
        return None if i is None else put(lines, i, lines[i], lines[i])

    def exchange(lines: Lines, rng: random.Random) -> Lines | None:
        i = some(lines, rng, statement)
        if i is None or i + 1 >= len(lines) or not statement.search(lines[i + 1]):
            return None
        return [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]

    def move(lines: Lines, rng: random.Random) -> Lines | None:
        i, to = some(lines, rng, statement), some(lines, rng, statement)
        if i is None or to is None or i == to:
            return None
        rest = put(lines, i)
        return [*rest[:to], lines[i], *rest[to:]]

    return delete, double, exchange, move


def at(lines: Lines, rng: random.Random, what: str, new: Callable[[re.Match[str]], str]) -> Lines | None:
    """One place of a pattern, replaced."""
    found = [(i, m) for i, x in enumerate(lines) for m in re.finditer(what, x)]
    if not found:
        return None
    i, m = rng.choice(found)
    return put(lines, i, lines[i][: m.start()] + new(m) + lines[i][m.end() :])


def _parity(lines: Lines, rng: random.Random) -> Lines | None:
    def flip(m: re.Match[str]) -> str:
        return f"{m[1]}, ({m[2]}) ^ 1" if rng.random() < 0.7 else f"{m[1]}, {rng.choice('01')}"

    return at(lines, rng, r"(mbarrier\.wait\S* [^,]+), ([^,@]+)$", flip)


def _slot(lines: Lines, rng: random.Random) -> Lines | None:
    other = rng.choice(("({} + 1)", "({} + 2)", "({} - 1)"))
    return at(lines, rng, r"\b(i|n|stage|st|k)\b(?= (%|//) )", lambda m: other.format(m[1]))


def _constant_slot(lines: Lines, rng: random.Random) -> Lines | None:
    return at(lines, rng, r"\[(i|n|stage|st|k)[^\]:]*\]", lambda _: f"[{rng.randrange(2)}]")


def _count(lines: Lines, rng: random.Random) -> Lines | None:
    """A count, bytes, a pending number, a bound, a mask or a first value."""

    def other(m: re.Match[str]) -> str:
        x = int(m[0])
        return str(rng.choice((x + 1, max(x - 1, 0), x * 2, x // 2)))

    kept = ("launch", "tensor", "role", "param", "assume", "shared", "st.global", "mbarrier ")
    mine = [x if not x.strip().startswith(kept) else re.sub(r"\d", "#", x) for x in lines]
    found = at(mine, rng, r"\b\d+\b", other)
    if found is None:
        return None
    return [x if y == z else z for x, y, z in zip(lines, mine, found, strict=True)]


def _trips(lines: Lines, rng: random.Random) -> Lines | None:
    def other(m: re.Match[str]) -> str:
        low, high = m[1], m[2].strip()
        return "in " + rng.choice((f"{low}..{high} + 1 {{", f"{low}..{high} - 1 {{", f"1..{high} {{"))

    return at(lines, rng, r"in ([\w()]+)\.\.([^{]+)\{", other)


def _first(lines: Lines, rng: random.Random) -> Lines | None:
    return at(lines, rng, r"(let \w+ = )(\d+)$", lambda m: m[1] + str(int(m[2]) ^ 1))


def _guard(lines: Lines, rng: random.Random) -> Lines | None:
    """A statement in some turns alone."""
    i = some(lines, rng, SYNC)
    name = next((m[1] for x in lines for m in [re.search(r"for (i|n|k) in", x)] if m), None)
    if i is None or name is None:
        return None
    when = rng.choice(("> 0", "!= 3", "< 4", "== 0", "% 2 == 0", ">= 2"))
    return put(lines, i, f"if {name} {when} {{", lines[i], "}")


def _scope(lines: Lines, rng: random.Random) -> Lines | None:
    change = rng.choice(((r"\.cluster\b", ""), (r"(?<=mbarrier\.arrive)(?= )", ".relaxed"), (r" @ [01]", "")))
    return at(lines, rng, change[0], lambda _: change[1])


OF_IR: tuple[Operator, ...] = (
    *operators(SYNC), _parity, _parity, _slot, _slot, _constant_slot, _count, _count, _trips, _trips, _first,
    _guard, _guard, _scope,
)  # fmt: skip


def _ptx_number(lines: Lines, rng: random.Random) -> Lines | None:
    i = some(lines, rng, _PTX)
    if i is None:
        return None
    found = [*re.finditer(r"(?<=[ ,+])-?\d+(?=[;,\]])", lines[i])]
    if not found:
        return None
    m = rng.choice(found)
    new = str(rng.choice((int(m[0]) + 1, int(m[0]) - 1, int(m[0]) * 2, int(m[0]) ^ 1)))
    return put(lines, i, lines[i][: m.start()] + new + lines[i][m.end() :])


def _ptx_guard(lines: Lines, rng: random.Random) -> Lines | None:
    return at(lines, rng, r"^(\s*)@!?(%p\d+)", lambda m: f"{m[1]}@{'!' if '!' not in m[0] else ''}{m[2]}")


def _ptx_compare(lines: Lines, rng: random.Random) -> Lines | None:
    other = ("lt", "le", "gt", "ge", "eq", "ne")
    return at(lines, rng, r"(?<=setp\.)(lt|le|gt|ge|eq|ne)", lambda _: rng.choice(other))


def _ptx_register(lines: Lines, rng: random.Random) -> Lines | None:
    """A register for another of its kind."""
    i = some(lines, rng, _PTX)
    if i is None:
        return None
    found = [*re.finditer(r"%(r|rd|p)(\d+)", lines[i])]
    if not found:
        return None
    m = rng.choice(found)
    known = sorted({x[0] for y in lines for x in re.finditer(rf"%{m[1]}\d+", y)})
    return put(lines, i, lines[i][: m.start()] + rng.choice(known) + lines[i][m.end() :])


OF_PTX: tuple[Operator, ...] = (
    *operators(_PTX), *operators(_PTX), _ptx_number, _ptx_number, _ptx_guard, _ptx_compare, _ptx_register,
)  # fmt: skip


def mutant(text: str, rng: random.Random, of: Sequence[Operator] = OF_IR, many: int = 1) -> str | None:
    """The text with so many mistakes; None where nothing changed."""
    lines: Lines | None = text.split("\n")
    for _ in range(many):
        for _ in range(20):
            assert lines is not None
            found = rng.choice(of)(lines, rng)
            if found is not None:
                lines = found
                break
    made = "\n".join(lines or [])
    return None if made == text else made
