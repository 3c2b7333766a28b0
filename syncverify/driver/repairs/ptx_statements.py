"""Statements of PTX that synchronize on an mbarrier: from the registers that hold its address and parity.

A repair that adds a wait needs the whole loop of ``mbarrier.try_wait``, with a label of its own. The address
is that of a statement near the place, so many bytes further: ``full[i]`` and ``empty[i]`` lie at a distance.
The parity is what another wait of the loop asks for, a register that the loop flips, or worked out from the
loop's counter. Each is a candidate, which counts if the kernel is proved with it.

Worked example. A producer announces on ``[%r50]`` and does not wait for ``empty``, 24 bytes further; its loop
flips ``%r66``, so the wait is for ``[%r50+24]`` and parity ``%r66``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from syncverify.base.diagnostics import EditHint, EditKind

#: Addresses, and parities for each, that are tried.
_MOST_ADDRESSES, _MOST_PARITIES = 2, 4
_LABEL = re.compile(r"^\s*(?P<name>[$\w]+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(?P<to>[$\w]+)\s*;")
_PLACE = re.compile(r"\[\s*(?P<base>[%$\w]+)\s*(?:\+\s*(?P<more>-?\d+)\s*)?\]")
_SUM = re.compile(r"\badd\.[su](?:32|64)\s+(?P<to>%\w+)\s*,\s*(?P<base>%\w+)\s*,\s*(?P<more>-?\d+)\s*;")
_FLIP = re.compile(r"\bxor\.b32\s+(?P<to>%\w+)\s*,\s*(?P=to)\s*,")
_COUNT = re.compile(r"\badd\.[su]32\s+(?P<to>%\w+)\s*,\s*(?P=to)\s*,\s*1\s*;")
_WAIT = re.compile(
    r"\b(?P<op>mbarrier\.try_wait\.parity[\w.:]*)\s+[^;]*\]\s*,\s*(?P<parity>%?\w+)\s*(?:,[^;]*)?;"
)
_CONSTANT = re.compile(r"\bmov\.[bsu]32\s+(?P<to>%\w+)\s*,\s*(?P<value>%?\w+)\s*;")
_ADD = re.compile(r"\badd\.[su](?:32|64)\b")
_SHARED = re.compile(r"\.shared\b[^;=]*\s(?P<name>[A-Za-z_$][\w$]*)\s*(?:\[\d*\])*\s*;")
_SYMBOL = re.compile(r"\bmov\.[bu](?:32|64)\s+%\w+\s*,\s*(?P<value>[A-Za-z_$][\w$]*)\s*;")
_TRY_WAIT = "mbarrier.try_wait.parity.shared::cta.b64"
_OTHER = {"0": "1", "1": "0"}


def ptx_statements(hint: EditHint, lines: Sequence[str], line: int) -> Iterator[str]:
    """What may be put before ``line`` (from 1) to wait, arrive, announce or initialize, line by line."""
    for at in islice(_addresses(hint, lines, line), _MOST_ADDRESSES):
        match hint.kind:
            case EditKind.WAIT:
                yield from (_wait(lines, at, *parity) for parity in _parities(hint, lines, line))
            case EditKind.ARRIVE if hint.number:
                yield _by_one_lane(lines, f"mbarrier.arrive.shared::cta.b64 _, [{at}];")
            case EditKind.ARRIVE:
                yield f"mbarrier.arrive.shared::cta.b64 _, [{at}];"
            case EditKind.ANNOUNCE:
                yield f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{at}], {hint.number};"
            case EditKind.INIT:
                yield f"mbarrier.init.shared::cta.b64 [{at}], {hint.number};"


def other_start(lines: Sequence[str], line: int) -> Iterator[tuple[int, str]]:
    """Lines that set the register, which the wait in ``line`` asks for, to 0 or 1: with the other one."""
    wait = _WAIT.search(lines[line - 1])
    if wait is None:
        return
    constants = {m["to"]: m["value"] for m in map(_CONSTANT.search, lines) if m is not None}
    for n, text in enumerate(lines, 1):
        m = _CONSTANT.search(text)
        if m is None or m["to"] != wait["parity"]:
            continue
        value = constants.get(m["value"], m["value"])
        if value in _OTHER:
            yield n, text[: m.start("value")] + _OTHER[value] + text[m.end("value") :]


def loop_around(lines: Sequence[str], line: int) -> tuple[int, int] | None:
    """The innermost loop that holds a line: that of its label, and that of the branch back."""
    for n in range(line, 0, -1):
        label = _LABEL.match(lines[n - 1])
        if label is None:
            continue
        back = (m for m in range(line, len(lines) + 1) if label["name"] in _BRANCH.findall(lines[m - 1]))
        last = max(back, default=0)
        if last:
            return n, last
    return None


def _addresses(hint: EditHint, lines: Sequence[str], line: int) -> Iterator[str]:
    """The mbarrier's address, by registers that hold that of another one, or by the names of variables.

    How far variables lie apart is settled behind PTX: a distance counts within one of them.
    """
    shared = [m["name"] for m in map(_SHARED.search, lines) if m is not None]
    meant = next((name for name in shared if _is_called(name, hint.name)), None)
    found: dict[str, None] = {}
    for other, apart in hint.apart:
        places = list(_PLACE.finditer(lines[other - 1]))
        if not places:
            continue
        base, more = _defined(lines, line, places[-1]["base"], int(places[-1]["more"] or 0))
        if base in shared and meant is not None:
            base, more = meant, more if base != meant else more + apart
        elif meant is not None and (len(shared) == 1 or _variable(lines, base, shared) == meant):
            more += apart
        else:
            continue
        found[f"{base}+{more}" if more else base] = None
    yield from found


def _is_called(symbol: str, name: str) -> bool:
    """Whether a variable of PTX is that which a report calls so."""
    bare = re.split(r"[+.\[]", name)[0]
    return symbol == bare or symbol.endswith(f"{len(bare)}{bare}")


def _defined(lines: Sequence[str], line: int, base: str, more: int) -> tuple[str, int]:
    """An address by a register that is set above a line, or by the variable that it begins with."""
    for _ in range(len(lines)):
        set_at = _set_at(lines, base)
        symbol = next((m["value"] for n in set_at if (m := _SYMBOL.search(lines[n - 1]))), None)
        if symbol is not None:
            return symbol, more
        total = next((m for n in set_at if (m := _SUM.search(lines[n - 1])) and m["to"] == base), None)
        if total is None or (any(n < line for n in set_at) and not _variable(lines, total["base"], ())):
            return base, more
        base, more = total["base"], more + int(total["more"])
    return base, more


def _variable(lines: Sequence[str], base: str, shared: Sequence[str]) -> str | None:
    """The variable that the address in a register begins with, through sums."""
    work, seen = [base], {base}
    while work:
        for n in _set_at(lines, work.pop()):
            symbol = _SYMBOL.search(lines[n - 1])
            if symbol is not None:
                return symbol["value"]
            if _ADD.search(lines[n - 1]):
                parts = [r for r in re.findall(r"%\w+", lines[n - 1])[1:] if r not in seen]
                seen.update(parts)
                work += parts
    return None


def _set_at(lines: Sequence[str], register: str) -> list[int]:
    """The lines that set a register."""
    sets = re.compile(rf"^\s*(?:@!?%\w+\s+)?(?!st|red|cp)[a-z][\w.:]*\s+{re.escape(register)}\s*,")
    return [n for n, text in enumerate(lines, 1) if sets.search(text)]


def _parities(hint: EditHint, lines: Sequence[str], line: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Parities: the operand, and what has to be worked out for it."""
    yield from _of_loop(hint, lines, line)
    yield from (("0", ()), ("1", ()))


def _of_loop(hint: EditHint, lines: Sequence[str], line: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Parities that the loop around a line keeps or counts."""
    loop = loop_around(lines, line)
    if loop is None:
        return
    inside = lines[loop[0] - 1 : loop[1]]
    kept = dict.fromkeys(
        chain(
            (m["parity"] for m in map(_WAIT.search, inside) if m is not None),
            (m["to"] for m in map(_FLIP.search, inside) if m is not None),
        )
    )
    registers = islice((r for r in kept if r.startswith("%")), _MOST_PARITIES // 2)
    counters = (m["to"] for m in map(_COUNT.search, inside) if m is not None)
    yield from (found for r in registers for found in ((r, ()), ("parity", (f"xor.b32 parity, {r}, 1;",))))
    for counter in islice(counters, 1):
        turn = (f"div.u32 parity, {counter}, {max(hint.size, 1)};",)
        later = ("add.u32 parity, parity, 1;",) if hint.number else ()
        yield "parity", (*turn, *later, "and.b32 parity, parity, 1;")


def _wait(lines: Sequence[str], at: str, parity: str, before: tuple[str, ...]) -> str:
    """A loop that waits for a parity of the mbarrier at an address."""
    op = next((m["op"] for m in map(_WAIT.search, lines) if m is not None), _TRY_WAIT)
    again, done = _fresh(lines, "wait_again"), _fresh(lines, "is_over")
    parts = [".reg .b32 parity;", *before] if before else []
    return "\n".join((
        "{", f".reg .pred {done};", *parts, f"{again}:", f"{op} {done}, [{at}], {parity};",
        f"@!{done} bra {again};", "}",
    ))  # fmt: skip


def _by_one_lane(lines: Sequence[str], statement: str) -> str:
    """A statement by one lane of each warp, behind what all its lanes did."""
    one = _fresh(lines, "first_lane")
    return "\n".join((
        "bar.warp.sync -1;", "{", f".reg .pred {one};", f"elect.sync _|{one}, -1;",
        f"@{one} {statement}", "}",
    ))  # fmt: skip


def _fresh(lines: Sequence[str], name: str) -> str:
    """A name that the text does not hold."""
    text = "\n".join(lines)
    return next(x for x in chain((name,), (f"{name}{n}" for n in range(2, len(lines) + 3))) if x not in text)


__all__ = ["loop_around", "other_start", "ptx_statements"]
