"""The rules of memory: accesses, fences, and what a thread leaves behind."""

from __future__ import annotations

from syncverify.simulate.ir.memory import check_access, fenced_in
from syncverify.simulate.ir.program import Event, Op, Program
from syncverify.simulate.ir.state import END, Found, State


class Core:
    """A program, what was found in it, and the rules of memory. Subclasses add barriers and scheduling."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.single = [g.count == 1 for g in program.groups]
        self.found: list[Found] = []
        self.log: list[tuple[int, int, int, int]] | None = None  # group, node, async, phase
        self.phases: dict[tuple[int, int], int] = {}  # instance -> the phase it landed in
        self.differs: list[tuple[int, int]] = []
        self.stopped = False
        self.cta_groups = [
            [g for g, x in enumerate(program.groups) if x.cta == c] for c in range(program.ctas)
        ]
        self.all_accesses = (1 << len(program.accesses)) - 1
        self.all_marks = 0  # that a CTA runs, any order of execution tells, a relaxed one too
        for mark in program.marks.values():
            self.all_marks |= mark
        self.elsewhere = [  # accesses of each CTA's threads to other CTAs' shared memory
            sum(1 << a.bit for a in program.accesses if a.remote and program.groups[a.group].cta == c)
            for c in range(program.ctas)
        ]
        self.spaces: dict[tuple[str, int], int] = {}
        for cta in range(program.ctas):
            own = program.memory_mask.get(cta, 0)
            everywhere = 0
            for m in program.memory_mask.values():
                everywhere |= m
            out = program.memory_mask.get(-1, 0)
            self.spaces |= {
                ("all", cta): everywhere, ("global", cta): out,
                ("shared_cta", cta): own, ("shared_cluster", cta): everywhere & ~out,
            }  # fmt: skip

    def key(self, s: State) -> object:
        """The state without accesses that nothing will be compared with any more."""
        live = self.p.pinned
        for m in s.cw:
            live |= m
        for m in s.cr:
            live |= m
        for cta in range(self.p.ctas if self.p.strict else 0):
            live |= fenced_in(self.p, cta, live & self.all_accesses)
        for xs in (s.H, s.O, s.A, s.AO):
            for i, x in enumerate(xs):
                xs[i] = x & live
        bars = []
        for b in s.bars:
            bars.append(
                (
                    b.alive,
                    b.phase,
                    b.pending,
                    b.expected,
                    b.tx,
                    b.RH & live,
                    b.RA & live,
                    b.RX & live,
                    b.CH & live,
                    b.CA & live,
                    b.CX & live,
                    b.RXA & live,
                    b.CXA & live,
                    b.seen or not self.p.strict,
                )
            )
        return (
            tuple(s.node),
            tuple(s.H),
            tuple(s.O),
            tuple(s.A),
            tuple(s.AO),
            tuple(bars),
            tuple(s.cw),
            tuple(s.cr),
            s.fly,
            s.partial,
            tuple(sorted(s.named.items(), key=lambda x: x[0])) if s.named else (),
            tuple(s.cluster.items()),
            tuple(sorted(s.wgs.items())),
            tuple(s.pool),
            tuple(sorted(s.rounds.items())) if s.rounds else (),
            tuple(s.flags),
            tuple(s.released),
            tuple(s.acquired),
            tuple(s.tokens),
            tuple(s.commits),
        )

    # -- helpers ----------------------------------------------------------------

    def harm(self, claim: str, rule: str, message: str, e: Event, g: int, stops: bool = False) -> None:
        self.found.append(Found(claim, rule, message, e.span, g, None, stops))
        self.stopped |= stops

    def wrote(self, g: int, node: int, phase: int = -1, op: int = -1) -> None:
        if self.log is not None:
            self.log.append((g, node, op, phase))

    def landed(self, instance: tuple[int, int], phase: int) -> None:
        old = self.phases.setdefault(instance, phase)
        if old != phase:
            self.differs.append(instance)

    def gone(self, s: State, cta: int) -> bool:
        return all(s.node[g] == END for g in self.cta_groups[cta])

    def next(self, s: State, g: int, answer: int = 0) -> None:
        s.node[g] = self.p.after[s.node[g]][answer]

    def join(self, s: State, g: int, h: int, a: int) -> None:
        s.H[g] |= h
        s.A[g] |= a
        s.O[g] &= ~s.H[g]
        s.AO[g] &= ~s.A[g]

    def bridge(self, s: State, g: int, mask: int) -> None:
        if self.single[g]:
            s.A[g] |= mask
        else:
            s.AO[g] |= mask & ~s.A[g]

    def fence(self, s: State, g: int, e: Event) -> None:
        if e.mask:
            self.bridge(s, g, e.mask)
        if "acquire" in e.flags:
            old = s.acquired[g]
            for h, a in old[: e.key + 1]:
                self.join(s, g, h, a)
            s.acquired[g] = tuple((0, 0) if i <= e.key else x for i, x in enumerate(old))  # type: ignore[assignment]
        if "release" in e.flags:
            self.publish(s, g, e.key, s.H[g] | s.O[g], s.A[g] | s.AO[g])
        if "init" in e.flags:
            self.publish(s, g, e.key, e.own & self.p.pinned, 0)

    def map_fence(self, s: State, g: int, e: Event) -> None:
        """Publishes edits of tensor maps within a scope, or takes them over (PTX ISA, tensormap proxy)."""
        for m in e.maps:
            for edit, cta, releases in self.p.map_pairs.get(m, ()):
                if e.op is Op.MAP_RELEASE and (s.H[g] | s.O[g]) & edit:
                    for level in range(e.key + 1):
                        s.H[g] |= releases[level]
                elif e.op is Op.MAP_ACQUIRE:
                    far = self.p.distance(cta, self.p.groups[g].cta)
                    if s.H[g] & releases[far] and e.key >= far:
                        s.A[g] |= edit

    def publish(self, s: State, g: int, level: int, h: int, a: int) -> None:
        """A release fence: a later relaxed operation hands this on, within the fence's scope."""
        s.released[g] = tuple(
            (x | h, y | a) if i <= level else (x, y)  # type: ignore[assignment]
            for i, (x, y) in enumerate(s.released[g])
        )

    def held(self, s: State, g: int, level: int, h: int, a: int) -> None:
        """A relaxed wait: an acquire fence of this scope or wider would add these."""
        s.acquired[g] = tuple(
            (x | h, y | a) if i == level else (x, y)  # type: ignore[assignment]
            for i, (x, y) in enumerate(s.acquired[g])
        )

    def check_bar(self, s: State, g: int, bar: int, e: Event) -> bool:
        """Whether the group may use the object: alive, and its initialization visible."""
        b = s.bars[bar]
        name = self.p.bars[bar].name
        if not b.alive:
            rule = "SV205" if b.ever else "SV204"
            self.harm(
                "ub",
                rule,
                f"{e.text}: {name} is {'invalidated' if b.ever else 'not initialized'}",
                e,
                g,
                True,
            )
            return False
        if b.init & ~s.H[g]:
            self.harm("ub", "SV204", f"{e.text}: the initialization of {name} is not visible", e, g)
        return True

    def accesses(self, s: State, g: int, e: Event) -> None:
        p = self.p
        for i in e.touches:
            if s.bars[i].alive:
                self.harm("ub", "SV208", f"{e.text} touches the live mbarrier {p.bars[i].name}", e, g)
        if e.remote and any(self.gone(s, p.accesses[b].memory) for b in e.bits if p.accesses[b].remote):
            self.harm("ub", "SV211", f"{e.text}: the CTA whose memory it touches has left", e, g)
        if e.remote:
            for b in e.bits:
                if not (s.H[g] | s.O[g]) & p.started.get(p.accesses[b].memory, 0):
                    self.harm("ub", "SV114", f"{e.text}: the other CTA may not have started", e, g)
        for bit, mask, kind, cells in e.cells:
            if p.accesses[bit].clash:
                self.harm("stale-value", "SV112", f"lanes of one {e.text} write the same bytes", e, g)
            if cells:
                self.found.extend(
                    check_access(p, s.H[g], s.O[g], s.A[g], s.AO[g], s.cw, s.cr, g, bit, mask, kind, cells, e)
                )
        if e.op is Op.ACCESS:
            for _, mask, _, _ in e.cells:
                if self.single[g]:
                    s.H[g] |= mask
                else:
                    s.O[g] |= mask
            return
        for op in e.asyncs:
            a = p.asyncs[op]
            self.check_bar(s, g, a.bar, e)
            if self.gone(s, p.bars[a.bar].cta):
                self.harm("ub", "SV211", f"{e.text}: the target CTA has left", e, g)
            s.fly |= 1 << op

    def accesses_of_object(self, s: State, g: int, e: Event) -> None:
        for bit, mask, kind, cells in e.cells:
            if cells:
                self.found.extend(
                    check_access(
                        self.p, s.H[g], s.O[g], s.A[g], s.AO[g], s.cw, s.cr, g, bit, mask, kind, cells, e
                    )
                )
            if self.single[g]:
                s.H[g] |= mask
            else:
                s.O[g] |= mask

    def abandoned(self, s: State, cta: int, g: int) -> None:
        """Copies into a CTA that has left (PTX ISA, Cluster of CTAs; docs/model.md E54, K21)."""
        fly = s.fly
        while fly:
            low = fly & -fly
            a = self.p.asyncs[low.bit_length() - 1]
            reads = a.mask & self.p.memory_mask.get(cta, 0)  # its source may lie here (docs/model.md B51, C4)
            if (a.memory == cta or reads) and not a.arrive:
                self.found.append(
                    Found("ub", "SV211", f"{a.text} is still in flight when its CTA leaves", a.span, g)
                )
            fly ^= low
