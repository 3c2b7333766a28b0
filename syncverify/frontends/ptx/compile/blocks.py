"""Blocks and branches as Python text: the functions of a program."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from syncverify.base.generated_code import compiled
from syncverify.frontends.ptx.analysis.blocks.block_groups import BLOCK_GROUP, MEMBER
from syncverify.frontends.ptx.analysis.slicing.iteration_havoc import (
    KEPT,
    TURN,
    asks_at,
    entry_value,
    havocked,
    outer_loops,
    renewed,
    round_robin_blocks,
    round_robin_of,
    skipping,
)
from syncverify.frontends.ptx.analysis.warps.run_past import Passed
from syncverify.frontends.ptx.compile.events import Effects
from syncverify.frontends.ptx.compile.if_conversion import IfConversion
from syncverify.frontends.ptx.compile.plan import Plan
from syncverify.frontends.ptx.compile.runtime import NOT_ENTERED, entry, exiting, rejoin, trusting
from syncverify.frontends.ptx.compile.state import (
    CONTEXT,
    DECIDE,
    ENDED,
    EVENT,
    LEAVE,
    MASK,
    PARTED,
    PC,
    QUEUED,
    START,
    Disagreement,
    Registers,
    Run,
    agreed,
)
from syncverify.frontends.ptx.decode.effects import Opaque
from syncverify.frontends.ptx.syntax.nodes import Instr, Sym
from syncverify.frontends.ptx.syntax.operands import results
from syncverify.frontends.ptx.values.register_values import PerLane, Unknown
from syncverify.model.events import END, Ev, Site


def strayed(r: Registers) -> None:
    """Control comes to a block that it was taken not to come to: the class is to have all of the code."""
    raise Disagreement((r[MASK],))


class Writer(Effects):
    """Writes the functions of a program."""

    def __init__(self, program: Plan) -> None:
        super().__init__(program)
        self.space["D"] = self._decide
        self._targets: dict[int, int] = {}
        #: blocks that a loop which may read sizes again begins with
        self.headers: set[int] = set()
        renews = program.sized and program.renews
        self.after: set[int] = set()  # and those that it is left to
        for header, loop, _ in outer_loops(self.flow) if renews else ():
            self.headers.add(header)
            self.after |= {s for b in loop for s in self.flow.blocks[b].succ if s not in loop}
        if program.sized:
            program.slot(TURN)
        #: blocks behind loops in such loops, and those before these
        self.round_robin, self.asking = (
            round_robin_blocks(self.flow) if renews else (frozenset[int](), frozenset[int]())
        )
        #: blocks that may go past a turn which is another's
        self.skipping = {b for b in skipping(self.flow) if self._in_one_go(b)} if program.sized else set()
        #: by branch, where the lanes go that hold 1, and those that hold 0
        self.sides: dict[int, tuple[int, int]] = {}
        #: by branch past a failed assertion, what a guard holds that goes past it, and the site
        self.guarding: dict[int, tuple[int, int]] = {}
        self.quiet = IfConversion(
            program, lambda label, r: self.space[f"b{label}"](r, 0), self.target, self._marked
        )
        self.parts: dict[int, tuple[int, tuple[int, ...]]] = {}  # branch -> its join, slots written between
        #: blocks where lanes come together, and the branches they left at
        self.joins: dict[int, set[int]] = {}
        for k in program.crossing.branches:
            self.joins.setdefault(program.whole_flow.join(self.flow.block_of[k]), set()).add(k)

    def _in_one_go(self, block: int) -> bool:
        """Whether a block is one function: nothing in it is an event, and nobody pauses there."""
        b = self.flow.blocks[block]
        touched = any(k in self.p.decoded or k in self.p.touches for k in range(b.lo, b.hi))
        return not touched and block not in self.asking

    def target(self, block: int) -> int:
        """The label at which control that comes to a block goes on: blocks without effect are passed over."""
        found = self._targets.get(block)
        if found is None:
            seen: set[int] = set()
            at, last = block, -1
            while at < self.flow.end and at not in seen and self._idle(at):
                seen.add(at)
                last = at if at in self.p.run_past.tails else last
                b = self.flow.blocks[at]
                at = b.succ[0] if len(b.succ) == 1 else self.flow.join(at)
            found = self._ended(last) if at >= self.flow.end or (at in seen) else self._label_of(at)
            self._targets[block] = found
        return found

    def _onward(self, block: int, to: int) -> int:
        """The label of where control goes on from a block to another."""
        found = self.target(to)
        return self._ended(block) if found == ENDED else found

    def _ended(self, block: int) -> int:
        """The label of the kernel's end, come to from a block, where it matters what was run past; -1: from
        nowhere."""
        if not self._matters(block):
            return ENDED
        k = self.flow.blocks[block].hi - 1
        label = 8 * k + LEAVE
        if label not in self.opened:
            self._leaving(label, block, Site(self.p.module.span(self.body[-1]), END))
        return label

    def _matters(self, block: int) -> bool:
        """Whether who leaves from a block may have run past a barrier."""
        found = self.p.run_past
        return block in found.tails or block in found.behind

    def _leaving(self, label: int, block: int, site: Site) -> None:
        """What leaves the kernel from a block: at one of several sites, by what was run past."""
        numbers: dict[Passed, int] = {}
        found = self.p.run_past
        for state in found.states:
            passed = found.passed(block) | state.past
            if passed not in numbers:
                numbers[passed] = len(self.p.sites)
                self.p.sites.append(site)
                self.p.left[numbers[passed]] = passed
        events = [(Ev.EXIT, numbers[found.passed(block) | s.past]) for s in found.states]
        self.space[f"b{label}"] = exiting(events)
        self.opened.append(label)

    def _label_of(self, block: int) -> int:
        return 8 * self.flow.blocks[block].lo + START

    def _idle(self, block: int) -> bool:
        b = self.flow.blocks[block]
        p = self.p
        return (
            not any(
                k in p.decoded
                or k in p.touches
                or k in p.slice.pure
                or k in p.slice.branches
                or self.body[k].op == "exit"
                for k in range(b.lo, b.hi)
            )
            and block not in self.joins
            and block not in self.headers
            and block not in self.after
            and block not in self.round_robin
            and block not in p.stops
            and not p.run_past.begun(block)
            and not p.run_past.left(block)
        )

    # ------------------------------------------------------------ functions

    def compile(self) -> dict[int, Run]:
        p = self.p
        end = self.body[-1] if self.body else None
        span = p.module.span(end) if end is not None else p.module.span(Instr("ret", (), (), p.function.line))
        p.sites.append(Site(span, END))
        self._open(QUEUED)
        self._text("q = r[1]")
        self._text(f"if q[1][0] != {int(Ev.UNKNOWN)}:")
        self._text("    r[0], r[1] = (q[0], ()) if len(q) == 2 else (0, (q[0], *q[2:]))")
        self._text("return q[1]")
        self._open(ENDED)
        self._text("r[0] = 1")
        self._text(f"return {self._constant((Ev.EXIT, 0))}")
        for n in sorted(self.flow.reached):
            self._block(n)
        text = "\n".join(self.lines)
        exec(compiled(text, f"<{p.function.name}>"), self.space)
        p.text = text
        return {label: self.space[f"b{label}"] for label in self.opened}

    def _block(self, n: int) -> None:
        b = self.flow.blocks[n]
        self._open(8 * b.lo + START)
        self._note(self.p.run_past.begun(n))
        if n in self.joins:
            self.space["J"] = rejoin
            self._text(f"if r[{PARTED}]: J(r, {n})")
        if n in self.after:
            self.space["O"] = self._restore
            self._text(f"O(r, {n})")
        if n in self.headers:
            self.space["N"] = self._renew
            self._text(f"N(r, {n})")
        if n in self.round_robin:
            self.space["M"] = self._deal
            self._text(f"M(r, {n})")
        if n in self.p.stops:
            self.space["X"] = strayed
            self._text("X(r)")
            return
        if n in self.skipping:
            self.space["K"] = self._go_past
            self._text(f"own = K(r, {n})")
        pause = asks_at(self.flow, n) if n in self.asking else None
        for k in range(b.lo, b.hi):
            i = self.body[k]
            self.p.at = k
            if k == pause:
                self._pause(8 * k + START, k == b.lo)
            if k == b.hi - 1 and i.op in ("bra", "brx", "ret", "exit"):
                if k in self.p.touches and i.op != "exit":
                    self._touch(k)
                break
            if k in self.p.decoded:
                self._effect(k)
                continue
            if k in self.p.touches:
                self._touch(k)
            if k in self.p.slice.pure:
                self._pure(k)
        if n in self.skipping:
            self._text("for slot in own: r[slot] = own[slot]")
        self._note(self.p.run_past.left(n))
        self._leave(n)

    def _pause(self, label: int, first: bool) -> None:
        """A point at which classes stop before they ask for a turn of their own, for others to go first."""
        if not first:
            self.space["Y"] = self._pauses
            self._text(f"if Y(r, {label}): r[0] = {label}; return None")
            self._text(f"return b{label}(r, a)")
            self._open(label)

    def _leave(self, n: int) -> None:
        b = self.flow.blocks[n]
        k = b.hi - 1
        i = self.body[k]
        if len(b.succ) == 1:
            if i.op == "exit" and i.guard is None and self._matters(n):
                self._goto(self._exit(k))
                return
            if i.op == "exit" and i.guard is None:
                site = self._site(k)
                self._text("r[0] = 1")
                self._text(f"return {self._constant((Ev.EXIT, site))}")
                return
            self._goto(self._onward(n, b.succ[0]))
            return
        if k not in self.p.slice.branches:
            self._goto(self._onward(n, self.flow.join(n)))
            return
        decide = 8 * k + DECIDE
        for last in (False, True):
            if last:
                self._open(decide)
            if i.op == "brx":
                self._text(f"v = {self._index(i)}")
                self._text(f"if v.__class__ is not int: r[0] = {decide}; v = D(r, v, {k})")
                table = next(op.name for op in i.operands if isinstance(op, Sym))
                labels = [self.p.function.labels[x] for x in self.p.function.tables[table]]
                targets = [self._onward(n, self._block_at(x)) for x in labels]
                c = self._constant(tuple(targets))
                self.space["B"] = entry
                self._text(f"r[0] = B({c}, v, {self.p.module.span(i).line})")
                continue
            assert i.guard is not None
            p = f"r[{self.p.slot(i.guard.name)}]"
            if k in self.p.perhaps:
                p = self._constant(Unknown(f"the condition at line {i.line} of the PTX", "param"))
            self._text(f"v = decided({p})" if i.guard.name in self.expr.choosing else f"v = {p}")
            part = k in self.p.crossing.branches
            name = "P" if part else "D"
            self.space["P"] = self._part
            self._text(f"if v.__class__ not in I: r[0] = {decide}; v = {name}(r, v, {k})")
            taken, other = self._sides(n)
            self._guards(n, k)
            if i.negated:
                taken, other = other, taken
            self._text(f"if v is not None: r[0] = {taken} if v else {other}")
            self.sides[k] = (taken, other)

    def _guards(self, n: int, k: int) -> None:
        """Notes of a branch that it keeps lanes from where an assertion has failed."""
        failing = self.flow.failing
        fails = [s in failing for s in self.flow.blocks[n].succ]
        if fails.count(True) == 1:
            end = failing[self.flow.blocks[n].succ[fails.index(True)]]
            self.guarding[k] = (int(fails[1] != self.body[k].negated), self._site(end))

    def _block_at(self, k: int) -> int:
        return self.flow.end if k >= len(self.body) else self.flow.block_of[k]

    def _sides(self, n: int) -> tuple[int, int]:
        """Labels for the branch taken, and not."""
        b = self.flow.blocks[n]
        i = self.body[b.hi - 1]
        after = self._onward(n, self._block_at(b.hi))
        if i.op == "bra":
            return self._onward(
                n, self._block_at(next(x.target for x in i.operands if hasattr(x, "target")))
            ), after
        if i.op == "exit":
            # an exit under a guard has a site of its own
            return self._exit(b.hi - 1), after
        return self._ended(n), after

    def _exit(self, k: int) -> int:
        label, n = 8 * k + EVENT, self.flow.block_of[k]
        if label not in self.opened and self._matters(n):
            self._leaving(label, n, self.p.sites[self._site(k)])
        elif label not in self.opened:
            self.space[f"b{label}"] = exiting([(Ev.EXIT, self._site(k))])
            self.opened.append(label)
        return label

    def _index(self, i: Instr) -> str:
        return self.expr.text(i.operands[0], 32)

    def _marked(self, block: int) -> bool:
        """Whether coming to a block does something of its own."""
        notes = self.p.run_past.begun(block) or self.p.run_past.left(block)
        return bool(notes) or block in self.headers or block in self.after or block in self.round_robin

    def _decide(self, r: Registers, v: Any, k: int) -> Any:
        """A branch on something that is no plain number; None: it was passed, to where its sides meet."""
        if k in self.guarding:
            v = self._trusted(r, v, k)
        try:
            return agreed(r, v, f"the branch at line {self.body[k].line} of the PTX")
        except (Disagreement, Opaque):
            if isinstance(v, Unknown) and k in self.cut:
                strayed(r)
            if isinstance(v, Unknown) and r[CONTEXT].tables.stays and k in self.p.early:
                self.p.seen.leaves.add(self._site(k))
                return self.p.early[k]
            if k in self.sides and self.quiet.merged(r, v, k, self.sides[k]):
                return None
            if self._any_answer(r, v, k):
                return None
            raise

    def _any_answer(self, r: Registers, v: Any, k: int) -> bool:
        """Lets a branch that data decides for the whole class go either way: its guard becomes any bit, of
        which it is asked next."""
        guard = self.body[k].guard
        if v.__class__ is PerLane:
            v = v.on(r[MASK])
        if guard is None or not isinstance(v, Unknown) or v.source not in ("data", "param"):
            return False
        answer = r[CONTEXT].any_answer(r, (guard.name,), self._site(k), each_time=self._each_time(k))
        if answer is None:
            return False
        r[self.p.slot(guard.name)] = answer
        r[PC] = 8 * k + DECIDE
        return True

    def _each_time(self, k: int) -> bool:
        """Whether each class that comes to a branch is asked there, and none goes on at a join behind it."""
        around = [region for j in self.sides if (region := self.quiet.region(j)) is not None]
        here = self.flow.block_of[k]
        return self.quiet.region(k) is None and not any(here in region.blocks for region in around)

    @cached_property
    def cut(self) -> frozenset[int]:
        """Branches between which and their join lies a block that agents are taken not to come to: what both
        sides do is not all there."""
        flow, stops = self.flow, self.p.stops
        several = [n for n in flow.reached if stops and len(flow.blocks[n].succ) > 1]
        return frozenset(flow.blocks[n].hi - 1 for n in several if not stops.isdisjoint(flow.between(n)))

    def _trusted(self, r: Registers, v: Any, k: int) -> Any:
        """The same where one side leads to where an assertion has failed, which nobody takes."""
        safe, site = self.guarding[k]
        found = trusting(r, v, safe)
        if found is not v:
            self.p.seen.trusted.add(site)
        return found

    def _part(self, r: Registers, v: Any, k: int) -> Any:
        """A branch at which lanes may part that take values from each other later."""
        live = r[CONTEXT].warp_lanes
        parts = r[MASK] != live and v.__class__ is PerLane and v.on(live) is v
        if parts and k in self.sides and self.quiet.merged(r, v, k, self.sides[k]):
            return None
        found = self._decide(r, v, k)
        if parts and found is not None:
            block = self.flow.block_of[k]
            if k not in self.parts:
                flow = self.p.whole_flow  # other lanes may come to blocks that these have no code of
                names = {
                    name
                    for b in flow.between(block)
                    for j in range(self.flow.blocks[b].lo, self.flow.blocks[b].hi)
                    for name in results(self.body[j])
                }
                kept = names & self.p.crossing.registers & self.p.slots.keys()  # others have no code here
                self.parts[k] = (flow.join(block), tuple(sorted(self.p.slots[x] for x in kept)))
            if self.parts[k] not in r[PARTED]:
                r[PARTED] = (*r[PARTED], self.parts[k])
        return found

    def _restore(self, r: Registers, block: int) -> None:
        """A loop whose turns read sizes again has been left: they are what they were."""
        slots = self.p.slots
        for x in self.p.renewals.values():
            for name in x.names if block in x.after else ():
                if r[slots[KEPT + name]].__class__ is not Unknown:
                    r[slots[name]] = r[slots[KEPT + name]]
                    r[slots[KEPT + name]] = NOT_ENTERED

    def _renew(self, r: Registers, header: int, on: int | None = 0) -> None:
        """A turn begins of a loop whose turns read sizes again, or is over for who distributes its iterations
        round-robin.
        """
        found = self.p.renewals.get(header)
        if found is None:
            return
        slots = self.p.slots
        iteration = slots[TURN]
        enters = any(r[slots[KEPT + name]].__class__ is Unknown for name in found.names)
        for name in found.names:
            if r[slots[KEPT + name]].__class__ is Unknown:
                r[slots[KEPT + name]] = r[slots[name]]
        first = {name: r[slots[KEPT + name]] for name in found.names}
        trips = [first[name] for name in found.inner_trip_counts if name in first]
        kept = [r[slots[name]] for name in found.own_bound]
        block_groups = self.p.block_groups is not None
        kept += [
            r[slots[x]] for x in (BLOCK_GROUP, MEMBER) if block_groups and x in slots
        ]  # places are determined by them
        pairs = False
        if found.deal is not None and round_robin_of(trips) is not None:
            if found.deal.step:
                pairs = True
                r[iteration] = (
                    entry_value(r[slots[found.deal.counter]], r[slots[found.deal.step]])
                    if enters
                    else r[iteration] + 1
                )
            else:
                r[iteration] = 0 if on is None else r[slots[found.deal.counter]] + on
        new = renewed([*first.values()], trips, kept, r[iteration], block_groups, pairs)
        for name, value in zip(found.names, new, strict=True):
            r[slots[name]] = value
        r[iteration] = r[iteration] + 1

    def _pauses(self, r: Registers, label: int) -> bool:
        """Whether a class stops before it asks for a turn of its own, for others to go first."""
        p = self.p
        if label not in p.hesitant or p.block_groups is not None:
            return False
        trips = [x for n in p.renewals.values() if n.deal for x in n.inner_trip_counts]
        # those of this turn may be numbers
        return round_robin_of(r[p.slots[kept + x]] for kept in ("", KEPT) for x in trips) is not None

    def _go_past(self, r: Registers, block: int) -> dict[int, Any]:
        """A block that goes past the first turn, another's, reads the sizes of that; returns what it held."""
        own: dict[int, Any] = {}
        slots = self.p.slots
        for x in self.p.renewals.values():
            for name in x.deal.skipped if x.deal is not None and block in x.deal.skips else ():
                value = r[slots[name]] if name in slots else None
                if havocked(value):
                    own[slots[name]] = value
                    (r[slots[name]],) = renewed([value], [value], [], 0)
        return own

    def _deal(self, r: Registers, block: int) -> None:
        """Who distributes its iterations round-robin has been through one, and reads the sizes of the next,
        which is another's; or
        is about to begin."""
        slots = self.p.slots
        for header, x in self.p.renewals.items():
            if x.deal is not None and block in (*x.deal.behind, x.deal.early):
                begins = block == x.deal.early
                if (
                    round_robin_of(r[slots[("" if begins else KEPT) + name]] for name in x.inner_trip_counts)
                    is not None
                ):
                    self._renew(r, header, None if begins else 1)
