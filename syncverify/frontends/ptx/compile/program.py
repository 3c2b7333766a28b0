"""A function as resumable code: Python functions over a flat list of slots, compiled once.

An agent's state is the list ``r``: program counter, queued events, class, its context, memories, then what
the code reads: special registers, addresses of variables, parameters, registers. ``r[0]`` is a label: each
instruction has several: ``START`` (go on here), ``EVENT`` (its events), ``AFTER`` (with their answer) and
``DECIDE`` (its branch). A function takes ``(r, a)``, ``a`` being the answer to the last event, and returns
an event, or None where it only jumps.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

from syncverify.frontends.ptx.analysis.slicing.iteration_havoc import KEPT, TURN
from syncverify.frontends.ptx.analysis.slicing.slice import Slice
from syncverify.frontends.ptx.compile.blocks import Writer
from syncverify.frontends.ptx.compile.plan import Plan
from syncverify.frontends.ptx.compile.state import AFTER, ENDED, SETTLED, START, TAKE, Run
from syncverify.frontends.ptx.compile.wgmma_runs import together
from syncverify.frontends.ptx.flow.control_flow import live_before
from syncverify.frontends.ptx.syntax.operands import CARRY, registers, results, sources


class Program(Plan):
    """A function of a module, compiled."""

    def _write(self, needed: Slice, sized: bool, like: Plan | None = None) -> None:
        """Compiles what is needed; ``like``: a program of the same function, whose sites are used on."""
        super()._write(needed, sized)
        if like is not None:
            self.sites, self.site_of, self.left = like.sites, like.site_of, like.left
            self.stores, self.seen = like.stores, like.seen
        code = Writer(self)
        self.blocks: dict[int, Run] = code.compile()
        self.saved = code.saved()
        self.lockstep = code.lockstep(self.saved)
        if sized:
            for x in self.renewals.values():
                for name in x.names:
                    self.slot(KEPT + name)
        self.entry = code.target(0) if self.body else ENDED

    def begin_launch(self) -> None:
        """What runs were seen to do is known of one launch; a new one has not begun."""
        self.seen.forget(self.stores)

    @cached_property
    def for_sizes(self) -> Program:
        """The same for sizes without a number: without values that only say where in global memory something
        is read, for they ask much and tell nothing; with sizes that turns of loops havocked."""
        if self.slice.steering is None and not self.renewals:
            return self
        return self._sized(self.slice.steering or self.slice, frozenset())

    @cached_property
    def without_stored_values(self) -> Program | None:
        """The same for sizes without a number, and without values that are only stored in shared memory; None
        if none of them changes from turn to turn of a loop."""
        stores = [i for k, i in enumerate(self.body) if self._only_stored(k)]
        if not self._carried({name for i in stores for op in i.operands[1:] for name in registers(op)}):
            return None
        return self._sized(self._unstored(), frozenset(), stores_data=True)

    def _only_stored(self, k: int) -> bool:
        """Whether a store's values are compared, and steer nothing."""
        steers = k in self.slice.pure and k not in self.slice.aside
        return k in self.decoded and self.body[k].op in ("st", "stmatrix") and not steers

    def _carried(self, names: set[str]) -> bool:
        """Whether registers are made of one that is written in a loop and outside of it."""
        writers: dict[str, list[int]] = {}
        for k, i in enumerate(self.body):
            for name in results(i):
                writers.setdefault(name, []).append(k)
        work = [*(names & self.slice.registers)]
        seen = {*work}
        while work:
            for k in writers.get(work.pop(), ()):
                more = self.slice.registers.intersection(sources(self.body[k])) - seen
                seen |= more
                work += more
        places = [{self.flow.block_of[k] for k in writers.get(name, ())} for name in seen]
        return any(at & loop and at - loop for at in places for loop in self.flow.loops)

    def without_conditions(self, branches: frozenset[int]) -> Program:
        """The same for sizes without a number, with accesses that some branches decide about as made."""
        return self._sized(self._unasked(branches), branches)

    def _sized(self, needed: Slice, perhaps: frozenset[int], *, stores_data: bool = False) -> Program:
        """The same for sizes without a number, with what it needs compiled."""
        made = self._havocked()
        made.perhaps, made.stores_data = perhaps, stores_data
        made.decoded, made.together = together(self.flow, self.decoded, self.touches.keys())
        made._write(needed, sized=True)
        return made

    @cached_property
    def read_once(self) -> Program:
        """The same without sizes that turns of loops read again: registers keep what the code leaves in them,
        as induction over turns needs it.
        """
        if not self.renewals:
            return self
        made = self._havocked()
        made.renews = False
        return self._made(made, self.slice)

    def along(self, stops: frozenset[int]) -> Program:
        """The same for agents that do not come to some blocks; one that does splits into one part."""
        made = self._alongs.get(stops)
        if made is None:
            made = self._alongs[stops] = self._havocked()
            self._made(made, made._without(stops))
        return made

    def _made(self, other: Program, needed: Slice) -> Program:
        """Another program of the function, with what it needs compiled."""
        other._write(needed, self.sized, self)
        return other

    @cached_property
    def _alongs(self) -> dict[frozenset[int], Program]:
        return {}

    def _havocked(self) -> Program:
        made = copy(self)
        for name in ("bits", "renewals", "stale", "_live", "_live_in_turns", "_kept", "_live_memo",
                     "_shown_memo", "names", "predicates", "steady", "hesitant", "lengths",
                     "_alongs"):  # fmt: skip
            made.__dict__.pop(name, None)
        return made

    @cached_property
    def _live(self) -> list[frozenset[str]]:
        return live_before(self.flow, self._reads, self._writes, self._kept)

    @cached_property
    def _live_in_turns(self) -> list[frozenset[str]]:
        """The same inside loops whose turns read sizes again."""
        entering = {h: x.names for h, x in self.renewals.items()}
        return live_before(self.flow, self._reads, self._writes, self._kept, entering)

    @cached_property
    def _kept(self) -> frozenset[str]:
        return self.slice.registers.union(*self.constants.values(), (CARRY,))

    def _reads(self, k: int) -> tuple[str, ...]:
        if k in self.slice.pure or k in self.decoded or k in self.slice.branches:
            return (
                *sources(self.body[k]),
                *self.together.reads.get(k, ()),
                *self.constants.get(k, ()),
            )
        return ()

    def _writes(self, k: int) -> tuple[str, ...]:
        if k not in self.slice.pure and k not in self.decoded:
            return ()
        return results(self.body[k])

    def _late(self, k: int) -> bool:
        """Whether an instruction reads registers after its events: for what it keeps, or an answer."""
        op = self.body[k].op
        kept = op in ("ld", "ldu", "st") and k in self.slice.pure
        return kept or op == "elect" or (self.handing is not None and k in self.handing.polls)

    def live_at(self, label: int) -> tuple[int, ...]:
        """The slots that may be read from a label on before they are written."""
        found = self._live_memo.get(label)
        if found is None:
            found = self._live_memo[label] = tuple(sorted(self.slots[x] for x in self._live_names(label)
                                                          if x in self.slots))  # fmt: skip
        return found

    def shown_at(self, label: int) -> tuple[tuple[int, int, int], ...]:
        """The same with their widths, and what a number is less of which it is negative."""
        found = self._shown_memo.get(label)
        if found is None:
            widths = [(s, self.bits.get(s, 64)) for s in self.live_at(label)]
            found = tuple([(s, n, 1 << (n - 1) if n > 1 else 0) for s, n in widths])
            self._shown_memo[label] = found
        return found

    @cached_property
    def _shown_memo(self) -> dict[int, tuple[tuple[int, int, int], ...]]:
        return {}

    @cached_property
    def names(self) -> dict[int, str]:
        """Registers and constants by slot."""
        return {s: name for name, s in self.slots.items()}

    @cached_property
    def predicates(self) -> frozenset[int]:
        """Where blocks in block groups hold predicates."""
        types = self.function.registers if self.block_groups is not None else {}
        numbers = self.lengths.predicates if self.sized else ()
        return frozenset(
            s for name, s in self.slots.items() if types.get(name) == "pred" and name not in numbers
        )

    @cached_property
    def steady(self) -> frozenset[int]:
        """Where blocks in block groups hold what no loop changes."""
        if self.block_groups is None:
            return frozenset()
        turning = {
            name
            for loop in self.flow.loops
            for b in loop
            for k in range(self.flow.blocks[b].lo, self.flow.blocks[b].hi)
            for name in results(self.body[k])
        }
        types = self.function.registers
        return frozenset(s for name, s in self.slots.items() if name in types and name not in turning)

    @cached_property
    def _live_memo(self) -> dict[int, tuple[int, ...]]:
        return {}

    def _live_names(self, label: int) -> set[str]:
        if label < START:
            return set()
        k, kind = divmod(label - START, 8)
        if k >= len(self.body):
            return set()
        n = self.flow.block_of[k]
        block = self.flow.blocks[n]
        live: set[str] = set()
        inside = self.sized and any(n in x.blocks for x in self.renewals.values())
        before = self._live_in_turns if inside else self._live
        for s in block.succ:
            if s < self.flow.end:
                live |= before[s]
        stop = k + 1 if kind in (AFTER - START, SETTLED - START) else k
        for j in range(block.hi - 1, stop - 1, -1):
            if self.body[j].guard is None:
                live -= set(self._writes(j))
            live |= set(self._reads(j)) & self._kept
        if kind == AFTER - START:
            late = self._late(k)
            if not late or self.body[k].guard is None:
                live -= set(self._writes(k))
            if late:
                live |= set(self._reads(k)) & self._kept
        live.update(f"{TAKE}{self.counter[k]}" for k in self.takes & self.slice.pure)
        for x in self.renewals.values() if self.sized else ():
            if n in x.before or n in x.blocks:
                live.add(TURN)
            if label == self._label(x.header):
                live |= set(x.names) & self._live[x.header]  # before the first turn
            if n in x.blocks or (n in x.after and label == self._label(n)):
                live.update(KEPT + name for name in x.names)
        return live

    def _label(self, block: int) -> int:
        return 8 * self.flow.blocks[block].lo + START

    def again(self, label: int) -> bool:
        """Whether control that is at a label may come to a loop whose turns read sizes again."""
        if label < START or not self.sized or (label - START) // 8 >= len(self.body):
            return False
        n = self.flow.block_of[(label - START) // 8]
        return any(n in x.before or n in x.blocks for x in self.renewals.values())

    @cached_property
    def stale(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """At headers of such loops, by label: slots that a turn writes, with those that keep the first."""
        return {
            self._label(h): tuple((self.slots[n], self.slots[KEPT + n]) for n in x.names)
            for h, x in self.renewals.items()
        }
