"""First guesses of loops that repeat a ``cas``, by a plain load of the word that the loop changes (K28).

    ld.global.u32 %old, [%a];
    L: add.u32 %new, %old, %x;  atom.global.cas.b32 %now, [%a], %old, %new;
       setp.ne.u32 %p, %old, %now;  mov.u32 %old, %now;  @%p bra L;

CUDA's programming guide writes sums so. By the text of the memory model the load races with the ``cas`` of
another thread. Whatever it brings, the loop ends only where the ``cas`` has found it in the word: a wrong
guess costs a turn. So in practical mode such a load counts as a strong one, if the guess goes nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from syncverify.frontends.ptx.analysis.exclusion.swap_loops import changes_one_word, copied
from syncverify.frontends.ptx.analysis.handover.handover_detection import innermost
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Reg
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import width

_SPACES = ("global", "shared", "shared::cta")


def with_first_guesses(function: Function) -> tuple[Function, list[int]]:
    """The function with such loads as strong ones, and which instructions these are."""
    if not any(map(_plain, function.body)) or not any(map(_swaps, function.body)):
        return function, []
    found = sorted(k for k in first_guesses(Flow(function)) if _plain(function.body[k]))
    if not found:
        return function, []
    changed = tuple(_strong(i) if k in found else i for k, i in enumerate(function.body))
    return replace(function, body=changed), found


def first_guesses(flow: Flow) -> frozenset[int]:
    """The loads, plain or strong, that bring nothing but what a loop compares with in its first turn."""
    swaps = (k for k, i in enumerate(flow.body) if _swaps(i) and flow.block_of[k] in flow.reached)
    return frozenset(w for k in swaps for w in _guesses(flow, k))


def _swaps(i: Instr) -> bool:
    return i.op == "atom" and "cas" in i.mods


def _plain(i: Instr) -> bool:
    """Whether an instruction is a load of one word that says nothing of other threads."""
    return i.op == "ld" and len(i.mods) == 2 and i.mods[0] in _SPACES


def _strong(i: Instr) -> Instr:
    return replace(i, mods=("relaxed", "gpu", *i.mods))


def _guesses(flow: Flow, k: int) -> Iterator[int]:
    """The first guesses of a loop around ``k``: it has one end, and keeps nothing from turn to turn but what
    the last one has found."""
    loop = innermost(flow, k) or frozenset[int]()
    left = [s for b in loop for s in flow.blocks[b].succ if s not in loop]
    if len(left) != 1 or not changes_one_word(flow, k, loop):
        return
    versions, asked = flow.versions, flow.body[k].operands[2]
    assert isinstance(asked, Reg)
    expected = copied(flow, versions.read(asked.name, k))
    if _keeps_more(flow, loop, expected):
        return
    for w in {versions.writer[copied(flow, v)] for b, v in versions.merged(expected) if b not in loop}:
        if w >= 0 and _of_its_word(flow, w, k) and _flows_only_to(flow, w, expected):
            yield w


def _of_its_word(flow: Flow, w: int, k: int) -> bool:
    """Whether an instruction loads the word that a ``cas`` changes."""
    load, swap = flow.body[w], flow.body[k]
    if load.op != "ld" or load.guard is not None or not isinstance(load.operands[0], Reg):
        return False
    at, to = load.operands[1], swap.operands[1]
    if not isinstance(at, Mem) or not isinstance(to, Mem) or spaces(load.mods) != spaces(swap.mods):
        return False
    if width(load.mods[-1]) != width(swap.mods[-1]) or at.offset != to.offset:
        return False
    if not isinstance(at.base, Reg) or not isinstance(to.base, Reg):
        return at.base == to.base
    one, other = flow.versions.read(at.base.name, w), flow.versions.read(to.base.name, k)
    return copied(flow, one) == copied(flow, other)


def _flows_only_to(flow: Flow, w: int, expected: int) -> bool:
    """Whether what an instruction loads, and its copies, are read as what the loop asks for first alone."""
    versions, body = flow.versions, flow.body
    load = body[w].operands[0]
    assert isinstance(load, Reg)
    copies, work = set[int](), [versions.written(load.name, w)]
    used = _read(flow)
    while work:
        v = work.pop()
        if v in copies:
            continue
        copies.add(v)
        for j in used.get(v, ()):
            to = body[j].operands[0]
            if body[j].op != "mov" or body[j].guard is not None or not isinstance(to, Reg):
                return False
            work.append(versions.written(to.name, j))
    live = _live(flow, used)
    return all(v == expected or copies.isdisjoint(x for _, x in versions.merged(v)) for v in live)


def _keeps_more(flow: Flow, loop: Collection[int], expected: int) -> bool:
    """Whether a turn hands on more to the next one than what it has found."""
    versions = flow.versions
    return any(
        versions.block[v] in loop and v != expected and any(b in loop for b, _ in versions.merged(v))
        for v in _live(flow, _read(flow))
    )


def _read(flow: Flow) -> dict[int, list[int]]:
    """By version, the instructions that read it."""
    found: dict[int, list[int]] = {}
    for j, i in enumerate(flow.body):
        if flow.block_of[j] in flow.reached:
            for name in sources(i):
                found.setdefault(flow.versions.read(name, j), []).append(j)
    return found


def _live(flow: Flow, read: Collection[int]) -> set[int]:
    """The versions that some instruction reads, and those that these merge."""
    live, work = set[int](), list(read)
    while work:
        v = work.pop()
        if v not in live:
            live.add(v)
            work += [x for _, x in flow.versions.merged(v)]
    return live


__all__ = ["first_guesses", "with_first_guesses"]
