"""Which values loaded from shared memory are first used only after the buffer may have been handed on (K1).

A load is over once its value is used; copies with ``mov`` use nothing. Loads whose value is used before the
next operation that hands on or refills a buffer need no more than a READ that counts as used at once. The
others get a handle, and a USE before each instruction that is the first on its path to use the value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from syncverify.frontends.ptx.effect_fragments import copied
from syncverify.frontends.ptx.flow import Flow, live_before
from syncverify.frontends.ptx.nodes import Instr
from syncverify.frontends.ptx.operands import results, sources

_NOT_YET = ("try_wait", "test_wait", "pending_count", "inval")
_State = dict[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Uses:
    """``late``: numbers of loads, which are their handles too; ``at``: per instruction the handles used."""

    late: frozenset[int]
    at: Mapping[int, tuple[int, ...]]


NO_USES = Uses(frozenset(), {})


def hands_on(i: Instr) -> bool:
    """Whether others may write a buffer after this instruction, or the issuer's own copy does."""
    match i.op:
        case "mbarrier":
            return i.mods[:1] != () and i.mods[0] not in _NOT_YET
        case "bar" | "barrier":
            return True
        case "cp":
            quiet = ("prefetch", "commit_group", "wait_group", "wait_all")
            return ("bulk" in i.mods or "mbarrier" in i.mods) and not any(m in quiet for m in i.mods)
        case "st" | "red" | "atom":
            return "async" in i.mods or "release" in i.mods or "acq_rel" in i.mods
    return False


def late_uses(flow: Flow, loads: Collection[int]) -> Uses:
    """``loads``: the numbers of the instructions that read shared memory."""
    if not loads or not any(hands_on(i) for i in flow.body):
        return NO_USES
    return _Analysis(flow, loads).run()


class _Analysis:
    """A forward data-flow analysis: which loads' values a register holds, unused so far."""

    def __init__(self, flow: Flow, loads: Collection[int]) -> None:
        self.flow = flow
        self.body = flow.body
        self.loads = frozenset(loads)
        names: set[str] = set()
        for k in self.loads:
            names.update(results(self.body[k]))
        copies = [(k, copied(i)) for k, i in enumerate(self.body) if i.op == "mov"]
        grown = True
        while grown:
            before = len(names)
            for _, pairs in copies:
                names.update(d for d, s in pairs if s in names)
            grown = len(names) > before
        self.names = frozenset(names)
        self.live = live_before(
            flow, lambda k: sources(self.body[k]), lambda k: results(self.body[k]), self.names
        )
        self.steps = {
            n: [k for k in range(b.lo, b.hi) if self._matters(k)] for n, b in enumerate(flow.blocks)
        }
        self.crossed: set[int] = set()
        self.rotated: set[int] = set()
        self.at: dict[int, set[int]] = {}

    def _matters(self, k: int) -> bool:
        i = self.body[k]
        return k in self.loads or hands_on(i) or not self.names.isdisjoint(results(i) + sources(i))

    def run(self) -> Uses:
        entry: dict[int, _State] = {0: {}}
        work = deque([0])
        while work:
            n = work.popleft()
            if n == self.flow.end:
                continue
            state = dict(entry[n])
            for k in self.steps[n]:
                self._step(state, k)
            for s in self.flow.blocks[n].succ:
                if s == self.flow.end:
                    continue
                here = {r: v for r, v in state.items() if r in self.live[s]}
                old = entry.get(s)
                new = here if old is None else {
                    r: here.get(r, frozenset()) | old.get(r, frozenset()) for r in here | old
                }  # fmt: skip
                if new != old:
                    entry[s] = new
                    if s not in work:
                        work.append(s)
        late = frozenset(self.crossed)
        # A value that a later run of its own load overtakes never counts as used: the safe side.
        shown = late - self.rotated
        at = {k: tuple(sorted(v & shown)) for k, v in self.at.items() if v & shown}
        return Uses(late, at)

    def _step(self, state: _State, k: int) -> None:
        i = self.body[k]
        if i.op == "mov":
            new: _State = {}
            for d, s in copied(i):
                if s in state:
                    new[d] = new.get(d, frozenset()) | state[s]
            for d in results(i):
                if i.guard is None:
                    state.pop(d, None)
                elif d in state:
                    new[d] = new.get(d, frozenset()) | state[d]
            state |= new
            return
        used = frozenset().union(*(state.get(r, frozenset()) for r in sources(i)))
        if used:
            self.at.setdefault(k, set()).update(used)
            for r, held in list(state.items()):
                if left := held - used:
                    state[r] = left
                else:
                    del state[r]
        if hands_on(i):
            for held in state.values():
                self.crossed |= held
        if i.guard is None:
            for r in results(i):
                state.pop(r, None)
        if k in self.loads:
            if any(k in held for held in state.values()):
                self.rotated.add(k)
            for r in results(i):
                state[r] = state.get(r, frozenset()) | {k}
