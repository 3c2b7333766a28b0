"""Loops whose end is assumed: no run comes to it, and the text does not show it.

A loop without events is not followed, and one about which data decides is run once for any turn. That it
ends shows where it counts: in each turn a register moves on by a step of one sign, and is compared with a
number that the loop does not change and that no step jumps over. An example that ends for every ``n``:

    L: ...  add.s32 %r1, %r1, 1;  setp.lt.s32 %p1, %r1, %n;  @%p1 bra L;

By steps of 4 it does not for ``n`` above 2**31 - 4, where the register wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from syncverify.frontends.ptx.analysis.registers.interval_rules import Interval, Known
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.graph import jumps_back
from syncverify.frontends.ptx.isa.accesses import computes
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Operand, Reg, Special
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import kind, width

#: What a comparison asks where it does not hold, and with its operands the other way round.
_NOT = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
#: Instructions that compute alike in each turn, whatever the turn is.
_PURE = frozenset(
    "mov add sub mul mad min max shl shr and or xor not cvt neg abs bfe selp setp div rem cvta".split()
)
#: Special registers that hold another value each time.
_CLOCKS = ("%clock", "%globaltimer")
_MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class _Test:
    """An exit that each turn comes to: who goes on finds ``compare`` between a version, more a number, and an
    operand."""

    version: int
    more: int
    compare: str
    bound: Operand
    k: int
    bits: int
    signed: bool


def granted_loops(
    flow: Flow, decided: Collection[int], waits: Collection[int], number: Callable[[int], Known]
) -> list[int]:
    """The first instructions of loops whose end is assumed. ``decided``: the branches that runs
    decide; ``waits``: instructions that wait, so that the loop around them is an event; ``number``: what a
    version may hold."""
    heads: dict[int, set[int]] = {}
    for head, loop in jumps_back(flow.blocks, flow.idom):
        if head in flow.reached:
            heads.setdefault(head, set()).update(loop)
    waiting = {
        min((h for h in heads if flow.block_of[k] in heads[h]), key=lambda h: len(heads[h]), default=-1)
        for k in waits
    }
    return sorted(
        flow.blocks[h].lo
        for h, loop in heads.items()
        if h not in waiting and not _Loop(flow, h, loop, number).ends(decided)
    )


@dataclass(frozen=True, slots=True)
class _Loop:
    flow: Flow
    head: int
    blocks: Collection[int]
    number: Callable[[int], Known]

    def ends(self, decided: Collection[int]) -> bool:
        """Whether the text shows that it ends, or a run that decides each exit by numbers comes there."""
        exits = [b for b in self.blocks if any(s not in self.blocks for s in self.flow.blocks[b].succ)]
        asked = [self.flow.blocks[b].hi - 1 for b in exits]
        if any(k in decided for k in asked) and not any(self._by_data(k) for k in asked):
            return True
        back = [b for b in self.blocks if self.head in self.flow.blocks[b].succ]
        each_turn = [b for b in exits if all(self.flow.dominates(b, x) for x in back)]
        return any(
            self._is_halved(b) or ((test := self._test(b)) is not None and self._comes_there(test))
            for b in each_turn
        )

    def _by_data(self, k: int) -> bool:
        """Whether no launch fact says how a branch goes."""
        guard = self.flow.body[k].guard
        if guard is None:
            return self.flow.body[k].op == "brx"
        controllers = self.flow.controllers()
        versions, seen = self.flow.versions, set[int]()
        work = [versions.read(guard.name, k)]
        while work:
            v = work.pop()
            if v in seen:
                continue
            seen.add(v)
            if versions.is_unset(v):
                return True
            for c in controllers[versions.block[v]] & {*self.blocks} if versions.block[v] >= 0 else ():
                last = self.flow.blocks[c].hi - 1
                if (decides := self.flow.body[last].guard) is not None:
                    work.append(versions.read(decides.name, last))
            writer = versions.writer[v]
            if writer < 0:
                work += [m for _, m in versions.merged(v)]
                continue
            i = self.flow.body[writer]
            given = i.op == "ld" and "param" in i.mods
            if not (given or computes(i)) or _asks_a_clock(i):
                return True
            kept = () if i.guard is None else (versions.name[v],)
            work += [versions.read(name, writer) for name in (*kept, *sources(i))]
        return False

    def _test(self, block: int) -> _Test | None:
        """What an exit asks, if it compares what the turns move on with what they leave alone."""
        flow = self.flow
        k = flow.blocks[block].hi - 1
        last = flow.body[k]
        if last.op not in ("bra", "ret", "exit") or last.guard is None:
            return None
        made = flow.versions.writer[flow.versions.read(last.guard.name, k)]
        i = flow.body[made] if made >= 0 else None
        if i is None or i.op != "setp" or i.guard is not None or len(i.mods) != 2:
            return None
        if kind(i.mods[1]) not in ("u", "s", "b") or len(i.operands) != 3:
            return None
        signed = kind(i.mods[1]) == "s" and i.mods[0] not in _UNSIGNED
        compare = _UNSIGNED.get(i.mods[0], i.mods[0])
        inside = flow.blocks[block].succ[0] in self.blocks
        stays = inside != last.negated if last.op == "bra" else last.negated
        if compare not in _NOT:
            return None
        compare = compare if stays else _NOT[compare]
        bits = width(i.mods[1])
        for x, bound, how in ((*i.operands[1:], compare), (*i.operands[:0:-1], _SWAPPED[compare])):
            if isinstance(x, Reg) and self._stays(bound, made):
                v, more = self._moved_on(flow.versions.read(x.name, made), bits)
                if flow.versions.writer[v] < 0 and flow.versions.block[v] == self.head:
                    return _Test(v, more, how, bound, made, bits, signed)
        return None

    def _stays(self, x: Operand, k: int) -> bool:
        """Whether an operand is the same in each turn."""
        if isinstance(x, Imm):
            return True
        if isinstance(x, Special):
            return not x.name.startswith(_CLOCKS)
        if not isinstance(x, Reg):
            return False
        versions, seen, work = self.flow.versions, set[int](), [self.flow.versions.read(x.name, k)]
        while work:
            v = work.pop()
            if v in seen or versions.block[v] not in self.blocks:
                continue
            seen.add(v)
            writer = versions.writer[v]
            i = self.flow.body[writer] if writer >= 0 else None
            if i is None or i.guard is not None or _asks_a_clock(i):
                return False
            if i.op not in _PURE and not (i.op == "ld" and "param" in i.mods):
                return False
            work += [versions.read(name, writer) for name in sources(i)]
        return True

    def _moved_on(self, v: int, bits: int) -> tuple[int, int]:
        """The version that constants are added to, and their sum."""
        versions, more = self.flow.versions, 0
        for _ in range(_MOST_STEPS):
            k = versions.writer[v]
            i = self.flow.body[k] if k >= 0 else None
            step = None if i is None else _constant_step(i, bits)
            if i is None or step is None:
                break
            more += step[1]
            v = versions.read(step[0].name, k)
        return v, more

    def _steps(self, test: _Test) -> Interval | None:
        """By how much the turns move the version on."""
        versions, found = self.flow.versions, list[Interval]()
        for block, w in versions.merged(test.version):
            if block < 0 or not self.flow.dominates(self.head, block):
                continue
            v, more = self._moved_on(w, test.bits)
            if v == test.version:
                found.append(Interval(more, more, 0))
                continue
            k = versions.writer[w]
            i = self.flow.body[k] if k >= 0 else None
            by = None if i is None else self._by_register(i, k, test)
            if by is None:
                return None
            found.append(by)
        low, high = min((x.low for x in found), default=0), max((x.high for x in found), default=0)
        return Interval(low, high, 0 if low == high else 1) if found else None

    def _by_register(self, i: Instr, k: int, test: _Test) -> Known:
        """What an addition of something that stays the same adds to the version."""
        if i.op != "add" or i.guard is not None or len(i.mods) != 1 or width(i.mods[0]) != test.bits:
            return None
        for x, step in (i.operands[1:3], i.operands[2:0:-1]):
            if isinstance(x, Reg) and self._stays(step, k):
                v, more = self._moved_on(self.flow.versions.read(x.name, k), test.bits)
                known = self._known(step, k)
                if v == test.version and known is not None:
                    return known.plus(Interval(more, more, 0))
        return None

    def _known(self, x: Operand, k: int) -> Known:
        if isinstance(x, Imm):
            return Interval(x.value, x.value, 0) if isinstance(x.value, int) else None
        return self.number(self.flow.versions.read(x.name, k)) if isinstance(x, Reg) else None

    def _comes_there(self, test: _Test) -> bool:
        """Whether who goes on comes to where the comparison does not hold, without a wrap before it."""
        by = self._steps(test)
        if by is None:
            return False
        if test.compare == "eq":
            return by.low == by.high and by.low % (1 << test.bits) != 0
        if test.compare == "ne":
            return self._meets(test, by)
        half, whole = 1 << test.bits - 1, 1 << test.bits
        least, most = (-half, half - 1) if test.signed else (0, whole - 1)
        known = self._known(test.bound, test.k)
        low, high = (least, most) if known is None else (known.low, known.high)
        if isinstance(test.bound, Imm) and not test.signed:
            low = high = low % (1 << test.bits)
        if known is not None and test.signed and high > most:
            low, high = least, most
        strict = test.compare in ("lt", "gt")
        if test.compare in ("lt", "le"):
            return by.low > 0 and high + by.high - strict <= most
        return by.high < 0 and low + by.low + strict >= least

    def _meets(self, test: _Test, by: Interval) -> bool:
        """Whether steps of one length come to a number, wrapped or not."""
        if by.low != by.high or not by.low:
            return False
        if by.low % 2:
            return True  # they come to each number of the register
        versions, step = self.flow.versions, abs(by.low)
        first = [
            self.number(w)
            for b, w in versions.merged(test.version)
            if not (b >= 0 and self.flow.dominates(self.head, b))
        ]
        bound = self._known(test.bound, test.k)
        if bound is None or step & (step - 1):
            return False
        far = [x for x in first if x is not None]
        apart = (n for x in far for n in (bound.low - x.low - test.more, bound.step, x.step))
        return len(far) == len(first) and not any(n % step for n in apart)

    def _is_halved(self, block: int) -> bool:
        """Whether an exit asks whether something is left of a number that each turn shifts to the right."""
        flow, versions = self.flow, self.flow.versions
        k = flow.blocks[block].hi - 1
        last = flow.body[k]
        made = -1 if last.guard is None else versions.writer[versions.read(last.guard.name, k)]
        i = flow.body[made] if made >= 0 else None
        if i is None or i.op != "setp" or i.guard is not None or len(i.mods) != 2 or last.op != "bra":
            return False
        _, a, b = i.operands
        stays = (flow.blocks[block].succ[0] in self.blocks) != last.negated
        compare = _UNSIGNED.get(i.mods[0], i.mods[0])
        compare = compare if stays else _NOT.get(compare, "")
        if not isinstance(a, Reg) or not isinstance(b, Imm):
            return False
        if (compare, b.value) not in (("ne", 0), ("gt", 0), ("ge", 1)) or kind(i.mods[1]) == "f":
            return False
        v = versions.read(a.name, made)
        head = v if versions.writer[v] < 0 else self._shifted(v)
        if head is None or versions.writer[head] >= 0 or versions.block[head] != self.head:
            return False
        back = [w for b, w in versions.merged(head) if b >= 0 and flow.dominates(self.head, b)]
        return bool(back) and all(self._shifted(w) == head for w in back)

    def _shifted(self, v: int) -> int | None:
        """The version that is shifted to the right, without a sign, to make another."""
        k = self.flow.versions.writer[v]
        i = self.flow.body[k] if k >= 0 else None
        if i is None or i.op != "shr" or i.guard is not None or kind(i.mods[-1]) == "s":
            return None
        a, b = i.operands[1:]
        by = b.value if isinstance(b, Imm) else 0
        return self.flow.versions.read(a.name, k) if isinstance(a, Reg) and by else None


def _constant_step(i: Instr, bits: int) -> tuple[Reg, int] | None:
    """The register that an instruction adds a constant to, and the constant."""
    plain = i.guard is None and i.op in ("add", "sub", "mov") and len(i.mods) == 1
    if not plain or width(i.mods[0]) != bits:
        return None
    a, b = (*i.operands[1:], Imm(0))[:2]
    if i.op == "add" and isinstance(a, Imm):
        a, b = b, a
    if not isinstance(a, Reg) or not isinstance(b, Imm) or not isinstance(b.value, int):
        return None
    step = b.value - (1 << bits) if 1 << bits - 1 <= b.value < 1 << bits else b.value
    return a, -step if i.op == "sub" else step


def _asks_a_clock(i: Instr) -> bool:
    return any(isinstance(o, Special) and o.name.startswith(_CLOCKS) for o in i.operands)


__all__ = ["granted_loops"]
