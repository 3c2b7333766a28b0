"""Control flow of a function: basic blocks, dominators, loops, control dependence, spins, liveness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

from syncverify.frontends.ptx.flow.asserts import failing
from syncverify.frontends.ptx.flow.divergence import Divergence
from syncverify.frontends.ptx.flow.graph import Block, dominators, jumps_back, loops, reached, with_exits
from syncverify.frontends.ptx.flow.ssa import Versions
from syncverify.frontends.ptx.isa.accesses import harmless
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Label, Not, Operand, Reg, Sym
from syncverify.frontends.ptx.syntax.operands import is_poll, repeats, results, sources
from syncverify.frontends.ptx.syntax.types import kind, width

_ENDS = frozenset({"ret", "exit", "trap", "brkpt"})
_JUMPS = frozenset({"bra", "brx"})


class Flow:
    """The control flow graph of a body; block ``len(blocks)`` is the end that every path comes to."""

    def __init__(self, function: Function, stops: Collection[int] = ()) -> None:
        """``stops``: blocks at which control is taken to end."""
        self.function = function
        self.stops = frozenset(stops)
        self.body = function.body
        self.blocks, self.block_of = _blocks(function)
        self.end = len(self.blocks)
        for b in stops:
            for s in self.blocks[b].succ:
                if s < self.end:
                    self.blocks[s].pred.remove(b)
            self.blocks[b].succ = [self.end]
        self.reached = reached(self.blocks)
        n = self.end + 1
        succ = [b.succ for b in self.blocks] + [[]]
        pred: list[list[int]] = [[] for _ in range(n)]
        for i, out in enumerate(succ):
            for j in out:
                pred[j].append(i)
        self.idom = dominators(0, succ, pred)
        self.loops = loops(self.blocks, self.idom)
        #: where an assertion has failed: paths that come together otherwise do so all the same
        self.failing = failing(self)
        for b in self.failing:
            pred[b] = []
        left = [[s for s in out if s not in self.failing] for out in succ]
        self.ipdom = dominators(self.end, with_exits(pred, left, self.end), left)

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path to block ``b`` goes through ``a``."""
        while b != a and self.idom[b] != b and self.idom[b] >= 0:
            b = self.idom[b]
        return a == b

    def join(self, block: int) -> int:
        """The block at which all paths from ``block`` come together again."""
        found = self.ipdom[block]
        return self.end if found < 0 else found

    def endless(self) -> list[int]:
        """The blocks from which no path leads to the end."""
        done: set[int] = {self.end}
        grown = True
        while grown:
            more = {b for b in self.reached - done if not done.isdisjoint(self.blocks[b].succ)}
            done |= more
            grown = bool(more)
        return sorted(self.reached - done)

    def between(self, block: int) -> set[int]:
        """The blocks on paths from a branch to its join, both left out."""
        stop = self.join(block)
        seen: set[int] = set()
        work = [s for s in self.blocks[block].succ if s != stop]
        while work:
            b = work.pop()
            if b in seen or b == self.end:
                continue
            seen.add(b)
            work += [s for s in self.blocks[b].succ if s != stop]
        return seen

    def controllers(self) -> list[set[int]]:
        """For each block, the blocks whose branch decides whether it is executed."""
        out: list[set[int]] = [set() for _ in self.blocks]
        for i, b in enumerate(self.blocks):
            if len(b.succ) < 2:
                continue
            stop = self.join(i)
            for s in b.succ:
                at = s
                while at not in (stop, self.end) and at >= 0:
                    if i in out[at]:
                        break
                    out[at].add(i)
                    at = self.ipdom[at]
        return out

    @cached_property
    def versions(self) -> Versions:
        """The registers of the body in static single assignment form."""
        return Versions(self)

    @cached_property
    def divergence(self) -> Divergence:
        """Where threads meet again that went different ways."""
        return Divergence(self)

    @cached_property
    def spins(self) -> frozenset[int]:
        """Polls that do nothing but wait: around them is a loop that only they, or a trap, end."""
        polls = [i for i, x in enumerate(self.body) if is_poll(x)]
        return frozenset(i for i in polls if self._spins(i))

    def _spins(self, poll: int) -> bool:
        inside = [loop for loop in self.loops if self.block_of[poll] in loop]
        if not inside:
            return False
        loop = min(inside, key=len)
        # a loop around may begin where the wait does, and jump back to it too
        parts = [body for body in self._jumps_back if body < loop and self.block_of[poll] in body]
        return any(self._spins_in(x, poll) for x in (loop, *parts))

    def _spins_in(self, loop: frozenset[int], poll: int) -> bool:
        """Whether the loop ends only when every poll in it has been answered: each is a wait then.

        Of several each is taken by itself. What could bring a phase after the next before the loop ends has
        to be ordered behind a wait that is passed, and in the loop nothing is handed on.
        """
        inside = [k for b in loop for k in range(self.blocks[b].lo, self.blocks[b].hi)]
        polls = [k for k in inside if is_poll(self.body[k])]
        if not all(harmless(self.body[k]) for k in inside):
            return False
        if len(polls) > 1 and any(self.body[k].guard is not None for k in polls):
            return False  # one that is left out once it was answered is not asked in the last turn
        return all(self._repeats_until_yes(loop, k) for k in polls)

    def _repeats_until_yes(self, loop: frozenset[int], poll: int) -> bool:
        """Whether a poll asks the same in each turn of a loop, which "not yet" does not end."""
        asked = self.body[poll]
        if (self.moving(loop, asked) - set(results(asked))).intersection(sources(asked)):
            return False
        return self._waits(loop, poll) and self._leaves(loop, poll) and not self.counts(loop, asked)

    def _waits(self, loop: Collection[int], poll: int) -> bool:
        """Whether the answer "not yet" leads back to the poll, or to giving up, on every path."""
        start = self.block_of[poll]
        seen: set[tuple[int, frozenset[tuple[str, int]]]] = set()
        work: list[tuple[int, int, dict[str, int]]] = [
            (start, poll + 1, dict.fromkeys(results(self.body[poll]), 0))
        ]
        while work:
            n, first, known = work.pop()
            if n not in loop:
                if not self.gives_up(n):
                    return False
                continue
            if (n, frozenset(known.items())) in seen:
                continue
            seen.add((n, frozenset(known.items())))
            b = self.blocks[n]
            for k in range(first, b.hi):
                _evaluate(self.body[k], known)
            taken = _guard(self.body[b.hi - 1], known) if len(b.succ) == 2 else None
            succ = b.succ if taken is None else b.succ[:1] if taken else b.succ[1:]
            work += [(s, self.blocks[s].lo if s != self.end else 0, dict(known)) for s in succ if s != start]
        return True

    def _leaves(self, loop: Collection[int], poll: int) -> bool:
        """Whether a loop that was told "not yet" ends once every poll in it says yes: a condition may keep
        the first answer, as ``all = all && yes`` does."""
        start, asked = self.block_of[poll], self.body[poll]
        known = dict.fromkeys(results(asked), 0)
        if asked.guard is not None:
            known.setdefault(asked.guard.name, int(not asked.negated))
        seen: set[tuple[int, int, frozenset[tuple[str, int]]]] = set()
        work = [(start, poll + 1, 0, known)]
        while work:
            n, first, turns, known = work.pop()
            state = n, turns, frozenset(known.items())
            if n not in loop or (turns and state in seen):
                continue
            if turns > _TURNS:
                return False
            seen.add(state)
            for k in range(first, self.blocks[n].hi):
                _evaluate(self.body[k], known, yes=turns > 0)
            for s, after in self._onward(n, known):
                lo = self.blocks[s].lo if s != self.end else 0
                work.append((s, lo, turns + (s == start), after))
        return True

    def _onward(self, block: int, known: dict[str, int]) -> list[tuple[int, dict[str, int]]]:
        """Where control may go from a block, and what is known there."""
        b = self.blocks[block]
        last = self.body[b.hi - 1]
        if len(b.succ) != 2 or last.guard is None:
            return [(s, dict(known)) for s in b.succ]
        taken = _guard(last, known)
        ways = [(s, way) for s, way in zip(b.succ, (True, False), strict=True) if taken in (None, way)]
        return [(s, {**known, last.guard.name: int(way != last.negated)}) for s, way in ways]

    def counts(self, loop: Collection[int], asked: Instr) -> bool:
        """Whether something that depends on the number of turns is looked at after the loop."""
        inside = [k for b in sorted(loop) for k in range(self.blocks[b].lo, self.blocks[b].hi)]
        written = {r for k in inside for r in results(self.body[k])} - set(results(asked))
        if not any(self._readers.get(r, set()).difference(inside) for r in written):
            return False
        carried = self.by_turns(loop, asked)
        out = {s for b in loop for s in self.blocks[b].succ if s not in loop and s != self.end}
        return any(not carried.isdisjoint(self._live[s]) for s in out if not self.gives_up(s))

    def by_turns(self, loop: Collection[int], asked: Instr) -> set[str]:
        """The registers of a loop that depend on the number of its turns, beside what is asked in each."""
        body = [self.body[k] for b in sorted(loop) for k in range(self.blocks[b].lo, self.blocks[b].hi)]
        written = {r for x in body for r in results(x)} - set(results(asked))
        heads = {b for b in loop if any(p not in loop for p in self.blocks[b].pred)}
        carried = {r for h in heads for r in self._live[h] & written}
        grown = bool(carried)
        while grown:
            before = len(carried)
            for x in body:
                if x is not asked and not carried.isdisjoint(sources(x)):
                    carried.update(results(x))
            grown = len(carried) > before
        return carried

    def moving(self, loop: Collection[int], asked: Instr) -> set[str]:
        """The registers that may differ between two turns of a loop, what is asked in each among them.

        Others that are written in it are made again, in one place, of what stays.
        """
        body = [self.body[k] for b in loop for k in range(self.blocks[b].lo, self.blocks[b].hi)]
        written = Counter(r for x in body for r in results(x))
        moving = self.by_turns(loop, asked) | {r for r, n in written.items() if n > 1}
        moving.update(r for x in body if x is asked or not repeats(x) for r in results(x))
        grown = True
        while grown:
            more = {r for x in body if not moving.isdisjoint(sources(x)) for r in results(x)}
            grown = not more <= moving
            moving |= more
        return moving

    @cached_property
    def _jumps_back(self) -> list[frozenset[int]]:
        return [body for _, body in jumps_back(self.blocks, self.idom)]

    @cached_property
    def _readers(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for k, i in enumerate(self.body):
            for r in sources(i):
                found.setdefault(r, set()).add(k)
        return found

    @cached_property
    def _live(self) -> list[frozenset[str]]:
        names = frozenset(r for i in self.body for r in results(i))
        return live_before(self, lambda k: sources(self.body[k]), lambda k: results(self.body[k]), names)

    def live_at(self, block: int) -> frozenset[str]:
        """The registers that are read from a block on before they are written."""
        return frozenset() if block == self.end else self._live[block]

    def instructions(self, block: int) -> tuple[Instr, ...]:
        """Those of a block."""
        return tuple(self.body[self.blocks[block].lo : self.blocks[block].hi])

    def gives_up(self, block: int) -> bool:
        """Whether control that comes to a block ends in a trap."""
        for _ in range(8):
            if block == self.end:
                return False
            b = self.blocks[block]
            last = self.body[b.hi - 1]
            if last.op in ("trap", "brkpt") and last.guard is None:
                return True
            if len(b.succ) != 1:
                return False
            block = b.succ[0]
        return False


#: After so many turns in which all polls say yes, a loop that goes on may do so for ever.
_TURNS = 3


def _evaluate(i: Instr, known: dict[str, int], *, yes: bool = False) -> None:
    """What an instruction makes of registers with a known value; others lose theirs. ``yes``: so says each
    poll, of all lanes."""
    value = _value(i, known) if i.guard is None else None
    if yes and i.guard is not None and is_poll(i):
        asks = _guard(i, known)
        if asks is False:
            return
        value = 1 if asks else None
    elif yes and (is_poll(i) or (i.op == "vote" and "pred" in i.mods and _says_yes(i, known))):
        value = 1
    for name in results(i):
        known.pop(name, None)
    if value is not None and isinstance(i.operands[0], Reg):
        known[i.operands[0].name] = value


def _says_yes(i: Instr, known: dict[str, int]) -> bool:
    """Whether each lane brings 1 to a vote of all or any, where all hold the same."""
    return not {"all", "any"}.isdisjoint(i.mods) and _number(i.operands[1], known) == 1


def _value(i: Instr, known: dict[str, int]) -> int | None:
    """The result of a few instructions that compilers make conditions with."""
    if i.op == "vote":
        return 0 if "all" in i.mods and _number(i.operands[1], known) == 0 else None
    bits = _bits(i.mods[-1]) if i.mods else 0
    args = [a if a is None else a & (1 << bits) - 1 for a in (_number(x, known) for x in i.operands[1:])]
    if not bits:
        return None
    match i.op, args:
        case "mov", [a]:
            return a
        case "cvt", [int(a)]:
            return _converted(i, a, bits)
        case "not", [int(a)] if "pred" in i.mods:
            return a ^ 1
        case "selp", [a, b, int(p)]:
            return a if p else b
        case "setp", [int(a), int(b)] if i.mods[0] in ("eq", "ne"):
            return int((a == b) == (i.mods[0] == "eq"))
        case "and", [a, b] if 0 in (a, b):
            return 0
        case "and", [int(a), int(b)]:
            return a & b
        case "or", [a, b] if bits == 1 and 1 in (a, b):
            return 1
        case "or", [int(a), int(b)]:
            return a | b
        case "xor", [int(a), int(b)]:
            return a ^ b
    return None


def _bits(type_: str) -> int:
    """The bits of an integer or a predicate; 0: of another type."""
    return 1 if type_ == "pred" else width(type_) if kind(type_) in ("u", "s", "b") else 0


def _converted(i: Instr, a: int, bits: int) -> int | None:
    """What an integer of so many bits becomes as one of another width."""
    if len(i.mods) != 2 or not _bits(i.mods[0]):
        return None
    signed = a - (1 << bits) if i.mods[1][0] == "s" and a >> (bits - 1) else a
    return signed & (1 << _bits(i.mods[0])) - 1


def _number(op: Operand, known: dict[str, int]) -> int | None:
    match op:
        case Imm(value):
            return value
        case Reg(name):
            return known.get(name)
        case Not(Reg(name)):
            found = known.get(name)
            return None if found is None else found ^ 1
    return None


def _guard(i: Instr, known: dict[str, int]) -> bool | None:
    """Whether a guarded branch is taken; None where that is not known."""
    found = known.get(i.guard.name) if i.guard is not None else None
    return None if found is None else bool(found) != i.negated


def _targets(i: Instr, function: Function) -> list[int]:
    if i.op == "bra":
        return [op.target for op in i.operands if isinstance(op, Label)]
    out = []
    for op in i.operands:
        if isinstance(op, Sym) and op.name in function.tables:
            out += [function.labels[x] for x in function.tables[op.name]]
    return out


def ends(i: Instr) -> bool:
    """Whether no instruction follows in the same block."""
    return i.op in _ENDS or i.op in _JUMPS


def _blocks(function: Function) -> tuple[list[Block], list[int]]:
    body = function.body
    starts = {0}
    for k, i in enumerate(body):
        if i.op in _JUMPS:
            starts.update(_targets(i, function))
        if ends(i):
            starts.add(k + 1)
    order = sorted(s for s in starts if s < len(body))
    blocks = [Block(lo, hi) for lo, hi in zip(order, [*order[1:], len(body)], strict=True)]
    number = {b.lo: n for n, b in enumerate(blocks)}
    end = len(blocks)
    block_of = [0] * len(body)
    for n, b in enumerate(blocks):
        block_of[b.lo : b.hi] = [n] * (b.hi - b.lo)
        last = body[b.hi - 1]
        succ: list[int] = []
        if last.op in _JUMPS:
            succ = [number.get(t, end) for t in _targets(last, function)]
        elif last.op in _ENDS:
            succ = [end]
        if not ends(last) or last.guard is not None:
            succ.append(number.get(b.hi, end))
        b.succ = list(dict.fromkeys(succ))
        for s in b.succ:
            if s < end:
                blocks[s].pred.append(n)
    return blocks, block_of


def live_before(flow: Flow, reads: Callable[[int], Iterable[str]], writes: Callable[[int], Iterable[str]],
                kept: frozenset[str], entering: Mapping[int, Iterable[str]] = MappingProxyType({}),
                ) -> list[frozenset[str]]:  # fmt: skip
    """For each block, the registers of ``kept`` that may be read from there on before they are written.

    ``reads`` and ``writes`` give those of one instruction; what a guarded instruction writes stays live.
    ``entering``: what is written before a block's first instruction.
    """
    use: list[set[str]] = []
    kill: list[set[str]] = []
    for b in flow.blocks:
        u: set[str] = set()
        k: set[str] = set()
        for i in range(b.lo, b.hi):
            u |= set(reads(i)) - k
            if flow.body[i].guard is None:
                k |= set(writes(i))
        use.append(u & kept)
        kill.append(k)
    for i, names in entering.items():
        use[i] -= set(names)
        kill[i] |= set(names)
    live: list[set[str]] = [set(u) for u in use]
    work = set(range(len(flow.blocks)))
    while work:
        i = max(work)
        work.discard(i)
        after: set[str] = set().union(*(live[s] for s in flow.blocks[i].succ if s < flow.end))
        new = use[i] | (after - kill[i])
        if new != live[i]:
            live[i] = new
            work.update(flow.blocks[i].pred)
    return [frozenset(x) for x in live]


def read_early(flow: Flow) -> frozenset[str]:
    """The registers that some way through the blocks reads before it writes them."""
    names = frozenset(r for i in flow.body for r in sources(i))
    return live_before(flow, lambda k: sources(flow.body[k]), lambda k: results(flow.body[k]), names)[0]
