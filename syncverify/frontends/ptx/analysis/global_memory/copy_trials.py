"""Whether loaded words exist with which the copies of all threads are aligned.

Sizes and loaded pointers are the caller's to choose: a trial chooses them, and computes for each thread the
addresses of the copies that it comes to, by the sides that its numbers and the chosen words take. A copy is
the caller's to align if a trial shows one choice that aligns it and all others that are executed.

Equal words are loaded from equal addresses. What a kernel stores itself nobody chooses: a word that some
stores may have written is what all of them leave, as far as alignment goes, and is not followed where they
differ. Where a trial cannot follow what numbers of threads or constants make, no choice is shown.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from operator import add
from sys import getrecursionlimit, setrecursionlimit
from zlib import crc32

from syncverify.frontends.ptx.analysis.arrays.stored_words import Store, StoredWords
from syncverify.frontends.ptx.analysis.registers.thread_numbers import Numbers, ThreadNumbers, computed, logic
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Instr,
    Mem,
    Not,
    Operand,
    Reg,
    Special,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.operands import registers
from syncverify.frontends.ptx.syntax.pure_operations import PURE
from syncverify.frontends.ptx.syntax.types import width

#: What a version may hold in one thread; None where it is not followed.
Values = frozenset[int] | None
#: Large, so that indices lie below sizes, and a multiple of what copies ask for.
_LARGE = 1 << 20
#: What chosen words are past a large multiple; None: each something else.
_TRIALS: tuple[int | None, ...] = (0, 8, 4, 12, 1, 2, None, None)
_SHIFTS = range(1, 16)
_MOST_VALUES = 8
#: Versions that are computed for one copy's trials.
_MOST_STEPS = 400_000
_DEEPEST, _FRAMES = 600, 8000
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_FLOATS = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2"})
#: Special registers that neither the caller chooses nor a thread is known by.
_NOT_CHOSEN = ("%warpid", "%lanemask", "%clock", "%globaltimer", "%smid", "%gridid", "%pm")
#: By the way of an exchange, the lane whose word a lane receives.
_WAYS = {"idx": lambda _, n: n, "bfly": lambda me, n: me ^ n, "up": lambda me, n: me - n, "down": add}
_SHARED = (1 << 32) - 1
#: What copies ask for at most.
_UNIT = 16
#: What a word is past a multiple of that: one that is not followed, and one that nobody stores.
_LOST, _NOBODY = -1, -2


class _LostError(Exception):
    """More was computed than a trial may."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A copy's address: its register, what is added, and what the sum has to be a multiple of."""

    version: int
    more: int
    unit: int


@dataclass
class _Choice:
    """What one trial has chosen. ``words``: those that were loaded, by their places; ``left``: what a store
    leaves past a multiple, and what it was taken to leave while that was found out."""

    trial: int | None
    by_words: bool
    words: dict[Hashable, int] = field(default_factory=dict)
    left: dict[tuple[int, int], int] = field(default_factory=dict)
    taken: set[tuple[int, int]] = field(default_factory=set)
    #: stores leave words that are not followed, whatever is chosen
    lost: bool = False

    def others_than(self, before: set[Hashable]) -> bool:
        """Whether words were chosen since, and others may do."""
        return not self.lost and bool(self.words.keys() - before)


@dataclass
class Trials:
    """Trials of one function."""

    flow: Flow
    threads: ThreadNumbers
    variables: Mapping[str, Variable]
    stored: StoredWords
    steps: int = 0
    #: copies that some thread comes to in a trial
    met: set[int] = field(default_factory=set)
    _of_threads: dict[int, bool] = field(default_factory=dict)

    def unaligned(self, asked: Mapping[int, Asked]) -> set[int]:
        """The copies, of some, for which no trial shows a choice of words that aligns them."""
        left, deepest = set(asked), getrecursionlimit()
        setrecursionlimit(max(deepest, _FRAMES))
        try:
            for trial in _TRIALS if left else ():
                left -= self._aligned(asked, trial, by_words=True) or set()
                if not left:
                    return left
            for k, trial in product(sorted(left - self.met), _TRIALS):
                if k in left and self._aligned({k: asked[k]}, trial, by_words=False) is not None:
                    left.remove(k)
        except (_LostError, RecursionError):
            return left
        finally:
            setrecursionlimit(deepest)
        return left

    def _aligned(self, asked: Mapping[int, Asked], trial: int | None, *, by_words: bool) -> set[int] | None:
        """The copies that a trial comes to, if it aligns all. ``by_words``: threads come to them by the words
        that are chosen, too, and not only by their numbers."""
        chosen = _Choice(trial, by_words)
        come = set[int]()
        for numbers in self.tried:
            thread = _Thread(self, numbers, chosen)
            for k, a in asked.items():
                before = set(chosen.words)
                found = thread.aligns(k, a)
                for shift in _SHIFTS if found is False and chosen.others_than(before) else ():
                    kept = {w: x for w, x in chosen.words.items() if w in before}
                    chosen = _Choice(trial, by_words, kept)
                    thread = _Thread(self, numbers, chosen, shift)
                    found = thread.aligns(k, a)
                    if found is not False:
                        thread.shift = 0
                        break
                if found is False:
                    return None
                come |= {k} if found else set()
        return come

    @cached_property
    def tried(self) -> list[Numbers]:
        some = self.threads.threads
        return [*some, *(other for thread in some[:2] for other in self.threads.others(thread)[1:])]

    def of_threads(self, v: int) -> bool:
        if v not in self._of_threads:
            self._of_threads[v] = self.threads.made_of(v, of_block=False)
        return self._of_threads[v]


@dataclass
class _Thread:
    """What one thread computes in a trial."""

    trials: Trials
    numbers: Numbers
    chosen: _Choice
    shift: int = 0
    _known: dict[int, Values] = field(default_factory=dict)
    _entered: dict[int, bool] = field(default_factory=dict)
    _turning: dict[int, Values] = field(default_factory=dict)
    _depth: int = 0

    def aligns(self, k: int, a: Asked) -> bool | None:
        """Whether a copy is aligned; None if the thread does not come to it."""
        comes = self._comes(k) if self.chosen.by_words else self.trials.threads.comes(k, self.numbers)
        found = self.value(a.version) if comes else frozenset()
        if found == frozenset():
            return None  # or the words that were chosen lead elsewhere
        self.trials.met.add(k)
        return found is not None and any(not (x + a.more) % a.unit for x in found)

    def _comes(self, k: int) -> bool:
        i = self.trials.flow.body[k]
        if i.guard is not None and self._answers(i.guard, k) == frozenset({int(i.negated)}):
            return False
        return self._enters(self.trials.flow.block_of[k])

    def _enters(self, block: int) -> bool:
        """Whether the thread may come to a block."""
        found = self._entered.get(block)
        if found is None:
            parts = self.trials.threads.parts
            found = not any(parts(b, block, taken=self._taken(b)) for b in sorted(self._above(block)))
            self._entered[block] = found
        return found

    def _above(self, block: int) -> frozenset[int]:
        return self.trials.threads.above(block)

    def _taken(self, b: int) -> bool | None:
        """Whether the branch at a block's end is taken; None where that is open."""
        if not self.chosen.by_words:
            return self.trials.threads.taken(b, self.numbers)
        k = self.trials.flow.blocks[b].hi - 1
        i = self.trials.flow.body[k]
        if i.op != "bra" or i.guard is None:
            return None
        found = self._answers(i.guard, k)
        return None if found is None or len(found) != 1 else bool(next(iter(found))) != i.negated

    def _answers(self, guard: Operand, k: int) -> Values:
        return self._read(guard, k)

    def value(self, v: int) -> Values:
        """What a version may hold."""
        if v in self._known:
            return self._known[v]
        if v in self._turning:
            return self._turning[v]
        self.trials.steps += 1
        if self.trials.steps > _MOST_STEPS or self._depth > _DEEPEST:
            raise _LostError
        self._depth += 1
        found = self._merge(v) if self.trials.flow.versions.writer[v] < 0 else self._written(v)
        self._depth -= 1
        self._known[v] = found
        return found

    # ------------------------------------------------------------

    def _merge(self, v: int) -> Values:
        flow = self.trials.flow
        head, merged = flow.versions.block[v], flow.versions.merged(v)
        if not merged or any(b < 0 for b, _ in merged):
            return self._chosen(("unset", v))
        back = [(b, x) for b, x in merged if flow.dominates(head, b)]
        first = self._along([e for e in merged if e not in back], head)
        if not back or first is None:
            return first
        known, entered = self._known, self._entered
        self._known, self._entered = dict(known), dict(entered)
        self._turning[v] = first
        more = self._along(back, head)
        del self._turning[v]
        self._known, self._entered = known, entered
        if more is None or more <= first:
            return first if more is not None else None
        return None if self._counted_by_numbers(head) else _some(first | more)

    def _along(self, edges: Sequence[tuple[int, int]], head: int) -> Values:
        """What comes along the edges to a block that the thread may take."""
        taken = [(b, x) for b, x in edges if self._enters(b) and self._follows(b, head)]
        found = [self.value(x) for _, x in taken]
        if any(x is None for x in found):
            return None
        some = frozenset[int]().union(*(x for x in found if x is not None))
        if len(some) > 1 and len(taken) > 1 and self._lost_by_numbers([b for b, _ in taken], head):
            return None
        return _some(some)

    def _follows(self, b: int, to: int) -> bool:
        taken = self._taken(b)
        succ = self.trials.flow.blocks[b].succ
        if taken is None or len(set(succ)) != 2:
            return True
        return to == self.trials.threads.target(b, taken=taken)

    def _lost_by_numbers(self, blocks: Sequence[int], head: int) -> bool:
        """Whether a branch that decides between some blocks is made of numbers, and is open."""
        return any(self._taken(b) is None and self._by_numbers(b) for b in self._deciding(blocks, head))

    def _deciding(self, blocks: Sequence[int], head: int) -> set[int]:
        """The blocks whose branches decide from which of some a thread comes to another."""
        return set[int]().union(*({b} | self._above(b) for b in blocks)) - self._above(head)

    def _counted_by_numbers(self, head: int) -> bool:
        """Whether numbers of the thread decide how often a loop turns."""
        flow = self.trials.flow
        inside = min((x for x in flow.loops if head in x), key=len, default=frozenset[int]())
        out = [b for b in inside if any(s not in inside for s in flow.blocks[b].succ)]
        return any(self._by_numbers(b) for b in out)

    def _by_numbers(self, b: int) -> bool:
        k = self.trials.flow.blocks[b].hi - 1
        i = self.trials.flow.body[k]
        if i.guard is None:
            return i.op == "brx"
        v = self.trials.flow.versions.read(i.guard.name, k)
        return self.trials.of_threads(v) and self.trials.threads.numbers_only(v)

    # ------------------------------------------------------------

    def _written(self, v: int) -> Values:
        flow = self.trials.flow
        k = flow.versions.writer[v]
        i = flow.body[k]
        if i.guard is None:
            return self._made(v, i, k)
        answers = self._answers(i.guard, k)
        kept = flow.versions.read(flow.versions.name[v], k)
        sides = {bool(x) != i.negated for x in answers or (0, 1)}
        some = [self._made(v, i, k) if side else self.value(kept) for side in sides]
        return self._either(some, answers)

    def _either(self, some: Sequence[Values], answers: Values) -> Values:
        """One of several, by answers that may not be followed."""
        if any(x is None for x in some):
            return None
        found = frozenset[int]().union(*(x for x in some if x is not None))
        return None if answers is None and len(found) > 1 else _some(found)

    def _made(self, v: int, i: Instr, k: int) -> Values:
        if i.op in ("ld", "ldu", "atom"):
            return self._loaded(v, i, k)
        if i.op == "shfl":
            return self._exchanged(v, i, k)
        if i.op == "selp" and i.mods[-1] not in _FLOATS:
            answers = self._answers(i.operands[3], k)
            sides = {bool(x) for x in answers or (0, 1)}
            return self._either([self._read(i.operands[1 if side else 2], k) for side in sides], answers)
        if i.op not in PURE or not i.mods or not _FLOATS.isdisjoint(i.mods):
            return self._unfollowed(v)
        if any(isinstance(op, Vector) for op in i.operands):
            return self._packed(v, i, k)
        read = [self._read(op, k) for op in i.operands[1:]]
        return self._computed(v, i, read)

    def _computed(self, v: int, i: Instr, read: Sequence[Values]) -> Values:
        if i.mods[-1] == "pred" and i.op != "setp":
            found = {logic(i, x) for x in product(*((None,) if x is None else x for x in read))}
            return None if None in found else _some(frozenset(x for x in found if x is not None))
        if any(x is None for x in read):
            return None
        if not isinstance(i.operands[0], Reg) or not {"sat", "cc"}.isdisjoint(i.mods):
            return self._unfollowed(v)
        some = islice(product(*(sorted(x) for x in read if x is not None)), _MOST_VALUES)
        made = {_high(i, x) if "hi" in i.mods and i.op in ("mul", "mad") else computed(i, x) for x in some}
        return self._unfollowed(v) if None in made else _some(frozenset(x for x in made if x is not None))

    def _packed(self, v: int, i: Instr, k: int) -> Values:
        """A word made of parts, or a part of a word."""
        to, of = i.operands[0], i.operands[-1]
        if i.op != "mov" or isinstance(to, Vector) == isinstance(of, Vector):
            return self._unfollowed(v)
        bits = width(i.mods[-1])
        if isinstance(of, Vector):
            each = bits // len(of.items)
            read = [self._read(x, k) for x in of.items]
            if any(x is None for x in read):
                return None
            some = islice(product(*(x for x in read if x is not None)), _MOST_VALUES)
            return _some(
                frozenset(sum((x & (1 << each) - 1) << each * n for n, x in enumerate(w)) for w in some)
            )
        assert isinstance(to, Vector)
        at = registers(to).index(self.trials.flow.versions.name[v])
        each, read_ = bits // len(to.items), self._read(of, k)
        return None if read_ is None else frozenset(x >> each * at & (1 << each) - 1 for x in read_)

    def _unfollowed(self, v: int) -> Values:
        """A word that data goes into, where what makes it is not followed; None if numbers go into it, or
        constants alone."""
        if not self.trials.stored.is_given(v) or self._merged_by_numbers(v):
            return None
        return self._chosen(("own", v, self._me()) if self.trials.of_threads(v) else ("same", v))

    def _merged_by_numbers(self, v: int) -> bool:
        """Whether numbers decide which of some versions goes into another one."""
        versions = self.trials.flow.versions
        merged = [(x, versions.merged(x)) for x in self.trials.stored.behind(v) if versions.writer[x] < 0]
        return any(
            self._by_numbers(b)
            for x, some in merged
            for b in self._deciding([b for b, _ in some if b >= 0], versions.block[x])
        )

    def _me(self) -> Hashable:
        return tuple(sorted(self.numbers.items()))

    def _exchanged(self, v: int, i: Instr, k: int) -> Values:
        """A word of another lane: one that all lanes have is the same."""
        of, lane, ends = i.operands[1:4]
        if not isinstance(of, Reg):
            return self._read(of, k)
        given = self.trials.flow.versions.read(of.name, k)
        if not self.trials.of_threads(given):
            return self.value(given)
        way = next((m for m in i.mods if m in _WAYS), "")
        if (
            way
            and isinstance(lane, Imm)
            and isinstance(ends, Imm)
            and ends.value == (0 if way == "up" else 31)
        ):
            me = self.numbers["%laneid"]
            there = _WAYS[way](me, lane.value & 31)
            return self._of_lane(given, there if 0 <= there < 32 else me)
        return self._unfollowed(v)

    def _of_lane(self, given: int, lane: int) -> Values:
        """A version in a lane of the same warp."""
        now = self.numbers
        x, y = now["%ntid.x"], now["%ntid.y"]
        at = now["%tid.x"] + x * (now["%tid.y"] + y * now["%tid.z"]) - now["%laneid"] + lane
        there = {**now, "%tid.x": at % x, "%tid.y": at // x % y, "%tid.z": at // (x * y), "%laneid": lane}
        return _Thread(self.trials, there, self.chosen, self.shift).value(given)

    def _loaded(self, v: int, i: Instr, k: int) -> Values:
        m = i.operands[1]
        if not isinstance(m, Mem):
            return self._unfollowed(v)
        names, each = registers(i.operands[0]), width(i.mods[-1]) // 8
        more = m.offset + each * names.index(self.trials.flow.versions.name[v])
        if "param" in i.mods:
            return self._parameter(m, more, each)
        at = self._read(m.base, k)
        left = self._left(k, m, each)
        self.chosen.lost |= left == _LOST
        if at is None or "local" in i.mods or left == _LOST:
            return None  # what a thread keeps in local memory is not followed
        if left != _NOBODY:
            large = _LARGE * (1 + crc32(repr((sorted(at), more)).encode()) % 64)
            return frozenset({large + left & (1 << 8 * each) - 1})
        if len(at) > 1:
            return self._chosen(("own", v, self._me()))
        place = next(iter(at)) + more
        given = self._initial(place, each)
        if given is not None:
            return frozenset({given})
        later = "shared" in i.mods or i.op == "atom" or not _STRONG.isdisjoint(i.mods)
        return self._chosen((place, each, v if later else 0, i.mods[0] if later else ""), 8 * each)

    # ------------------------------------------------------------

    def _left(self, k: int, m: Mem, each: int) -> int:
        """What a word that is loaded is past a multiple, by the stores that may have written it."""
        found = _NOBODY
        for store in self.trials.stored.of(k):
            left = _NOBODY if self._apart(k, m, each, store) else self._left_by(store, 8 * each)
            if left != _NOBODY and found not in (_NOBODY, left):
                return _LOST
            found = found if left == _NOBODY else left
        return found

    def _apart(self, k: int, m: Mem, each: int, store: Store) -> bool:
        """Whether a load and a store are at places that all threads have, and that are apart."""
        some = [self._place(k, m), self._place(store.k, store.at)]
        if some[0] is None or some[1] is None:
            return False
        size = store.bits // 8 * len(store.words)
        loaded = self.trials.flow.body[k].operands[0]
        return some[0] + each * len(registers(loaded)) <= some[1] or some[1] + size <= some[0]

    def _place(self, k: int, m: Mem) -> int | None:
        """The place of an access, if constants alone make it."""
        if isinstance(m.base, Reg):
            v = self.trials.flow.versions.read(m.base.name, k)
            if not self.trials.threads.numbers_only(v) or self.trials.of_threads(v):
                return None
        at = self._read(m.base, k)
        return None if at is None or len(at) != 1 else next(iter(at)) + m.offset & _SHARED

    def _left_by(self, store: Store, bits: int) -> int:
        """What the words of a store are past a multiple, in all threads that come to it; ``bits``: those of a
        word that is loaded."""
        key, left = (store.k, bits), self.chosen.left
        if key in left:
            self.chosen.taken.add(key)
            return left[key]
        left[key] = 0  # while it is found out, of what is loaded and stored again
        found = set[int]()
        for numbers in self.trials.tried:
            thread = _Thread(self.trials, numbers, self.chosen)
            found |= thread._leaves(store, bits) if thread._comes(store.k) else set()
            if len(found) > 1 or _LOST in found:
                break
        now = _NOBODY if not found else _LOST if len(found) > 1 else min(found)
        if now > 0 and store.adds:
            now = _LOST
        if key in self.chosen.taken and now not in (0, _NOBODY):
            raise _LostError
        left[key] = now
        return now

    def _leaves(self, store: Store, bits: int) -> set[int]:
        found = set[int]()
        for word in store.words:
            some = self._read(word, store.k)
            if some is None or store.lost:
                return {_LOST}
            shifts = range(0, store.bits, min(bits, store.bits))
            found |= {(x & (1 << store.bits) - 1) >> n & _UNIT - 1 for x in some for n in shifts}
        return found

    def _parameter(self, m: Mem, more: int, each: int) -> Values:
        name = m.base.name if isinstance(m.base, Sym) else ""
        if each == 8 and self.trials.flow.function.entry:  # a pointer, to 16 bytes by default
            return frozenset({(1 + crc32(f"{name} {more}".encode()) % 4096) << 32})
        return self._chosen(("param", name, more), 8 * each)

    def _initial(self, place: int, each: int) -> int | None:
        """A word that a variable begins with."""
        for name, variable in self.trials.variables.items():
            at = place - _place_of(name)
            if variable.init is not None and any(variable.init) and 0 <= at <= variable.size - each:
                return int.from_bytes(variable.init[at : at + each], "little")
        return None

    def _chosen(self, key: Hashable, bits: int = 64) -> Values:
        words, trial = self.chosen.words, self.chosen.trial
        if key not in words:
            past = crc32(repr((key, trial)).encode()) % 16 if trial is None else trial
            large = _LARGE * (1 + crc32(repr(key).encode()) % 64)
            words[key] = (large + past + self.shift) & (1 << bits) - 1
        return frozenset({words[key]})

    def _read(self, op: Operand, k: int) -> Values:
        match op:
            case Imm(value):
                return frozenset({value})
            case FloatImm():
                return frozenset({op.bits})
            case Special(name):
                given = self.numbers.get(name)
                return None if given is None and name.startswith(_NOT_CHOSEN) else self._special(name, given)
            case Sym(name, offset):
                return frozenset({_place_of(name) + offset})
            case Not(reg):
                found = self._read(reg, k)
                return None if found is None else frozenset(1 - x for x in found)
            case Reg(name):
                return self.value(self.trials.flow.versions.read(name, k))
        return None

    def _special(self, name: str, given: int | None) -> Values:
        return self._chosen(("special", name)) if given is None else frozenset({given})


def _some(found: frozenset[int]) -> Values:
    return frozenset(sorted(found)[:_MOST_VALUES])


def _high(i: Instr, read: Sequence[int]) -> int:
    """The upper half of a product."""
    bits = width(i.mods[-1])
    a, b, c = (*(x & (1 << bits) - 1 for x in read), 0)[:3]
    if i.mods[-1][0] == "s":
        a, b = (x - (1 << bits) if x >> bits - 1 else x for x in (a, b))
    return (a * b >> bits) + c & (1 << bits) - 1


def _place_of(name: str) -> int:
    """Where a variable is taken to lie."""
    return (5000 + crc32(name.encode()) % 100_000) << 32


__all__ = ["Asked", "Trials"]
