"""mbarrier objects: arrivals, bytes, phases, and what waits learn (PTX ISA, mbarrier)."""

from __future__ import annotations

from syncverify.simulate.ir.core import Core
from syncverify.simulate.ir.program import Event, Op
from syncverify.simulate.ir.state import TX_LIMIT, Bar, Found, State


class Mbarriers(Core):
    """Operations on mbarriers."""

    def close(self, s: State, bar: int, b: Bar) -> Bar:
        keep = not self.p.strict  # docs/theory.md: older arrivals are inherited in practical mode only
        return b._replace(
            phase=b.phase + 1,
            pending=b.expected,
            seen=False,
            CH=b.RH,
            CA=b.RA,
            CX=b.RX,
            CXA=b.RXA,
            RH=b.RH if keep else 0,
            RA=b.RA if keep else 0,
            RX=b.RX if keep else 0,
            RXA=b.RXA if keep else 0,
        )

    def arrive(self, s: State, g: int, e: Event) -> None:
        p = self.p
        if not self.check_bar(s, g, e.bar, e):
            return
        b = s.bars[e.bar]
        info = p.bars[e.bar]
        remote = info.cta != p.groups[g].cta
        if remote and self.gone(s, info.cta):
            self.harm("ub", "SV211", f"{e.text}: the target CTA has left", e, g, True)
            return
        h, a = s.released[g][int(remote)] if "relaxed" in e.flags else (s.H[g] | s.O[g], s.A[g] | s.AO[g])
        h |= s.H[g] & self.all_marks
        if not remote:
            b = b._replace(RH=b.RH | h, RA=b.RA | a)
        else:
            wide = "cluster" in e.flags
            if wide:
                b = b._replace(RX=b.RX | h, RXA=b.RXA | a)
            if wide or not p.strict:
                known, weak = self.narrow(h)
                b = b._replace(RH=b.RH | known, RA=b.RA | weak)
        first = b.phase
        if (
            self.p.strict and not b.seen
        ):  # PTX ISA, mbarrier: phases are observed before they are reused (K14)
            self.harm("order-violation", "SV207", f"{e.text}: nobody has waited for the phase before", e, g)
        for _ in range(e.n):
            if e.bytes >= 0:
                b = b._replace(tx=b.tx + e.bytes)
            if b.pending < e.count:
                self.harm(
                    "ub", "SV202", f"{e.text}: more arrivals than the count of {b.expected}", e, g, True
                )
                return
            expected = b.expected - e.count if "drop" in e.flags else b.expected
            if expected < 1:
                self.harm("ub", "SV202", f"{e.text}: arrive_drop lowers the expected count to 0", e, g, True)
                return
            b = b._replace(pending=b.pending - e.count, expected=expected)
            if abs(b.tx) > TX_LIMIT:
                self.harm("ub", "SV203", f"{e.text}: tx-count {b.tx} out of range", e, g, True)
                return
            if b.pending == 0 and b.tx == 0:
                if "no_complete" in e.flags:
                    self.harm("ub", "SV206", f"{e.text}: completes the phase", e, g, True)
                    return
                b = self.close(s, e.bar, b)
        s.bars[e.bar] = b
        self.landed((s.node[g], -1), first)
        if e.token:
            s.tokens[g] = (*(x for x in s.tokens[g] if x[0] != e.token), (e.token, first))
        self.wrote(g, s.node[g], first)

    def narrow(self, h: int) -> tuple[int, int]:
        """What an edge of too narrow a scope still carries in practice (K4).

        Initializations; and, among async accesses only, that they are complete.
        """
        if self.p.strict:
            return 0, 0
        return h & self.p.pinned, h & ~self.p.generic & ~self.p.pinned

    def transactions(self, s: State, g: int, e: Event) -> None:
        if not self.check_bar(s, g, e.bar, e):
            return
        b = s.bars[e.bar]
        if self.gone(s, self.p.bars[e.bar].cta):
            self.harm("ub", "SV211", f"{e.text}: the target CTA has left", e, g, True)
            return
        self.landed((s.node[g], -1), b.phase)
        self.wrote(g, s.node[g], b.phase)
        if e.op is Op.PEND:
            b = b._replace(pending=b.pending + e.n)
        elif e.op is Op.EXPECT:  # never completes a phase (PTX ISA, mbarrier.expect_tx)
            b = b._replace(tx=b.tx + e.bytes * e.n)
        else:
            b = b._replace(tx=b.tx - e.bytes * e.n)
            if b.pending == 0 and b.tx == 0:
                b = self.close(s, e.bar, b)
        if abs(b.tx) > TX_LIMIT or b.pending > TX_LIMIT:
            self.harm("ub", "SV203", f"{e.text}: count out of range", e, g, True)
            return
        s.bars[e.bar] = b

    def complete(self, s: State, op: int, size: int | None = None) -> None:
        """An asynchronous operation lands, or (``size``) a part of its bytes does."""
        a = self.p.asyncs[op]
        b = s.bars[a.bar]
        info = self.p.bars[a.bar]
        if not b.alive:
            rule = "SV205" if b.ever else "SV204"
            self.found.append(
                Found("ub", rule, f"{a.text} completes on the dead {info.name}", a.span, a.group, None, True)
            )
            self.stopped = True
            return
        left = dict(s.partial).get(op, a.bytes)
        landing = left if size is None else size
        self.landed((-1, op), b.phase)
        if self.log is not None and size is None:
            self.log.append((a.group, -1, op, b.phase))
        if size is None:
            s.fly &= ~(1 << op)
            s.partial = tuple(x for x in s.partial if x[0] != op)
            b = b._replace(RH=b.RH | a.mask)
        else:
            s.partial = tuple(sorted([*(x for x in s.partial if x[0] != op), (op, left - size)]))
        if a.arrive:
            if b.pending < a.arrive:
                self.found.append(
                    Found(
                        "ub",
                        "SV202",
                        f"{a.text}: more arrivals than the count of {b.expected}",
                        a.span,
                        a.group,
                        None,
                        True,
                    )
                )
                self.stopped = True
                return
            b = b._replace(pending=b.pending - a.arrive)
        else:
            b = b._replace(tx=b.tx - landing)
        if abs(b.tx) > TX_LIMIT:
            self.found.append(
                Found("ub", "SV203", f"{a.text}: tx-count out of range", a.span, a.group, None, True)
            )
            self.stopped = True
            return
        if b.pending == 0 and b.tx == 0:
            b = self.close(s, a.bar, b)
        s.bars[a.bar] = b

    def passed(self, s: State, g: int, e: Event, phase: int) -> None:
        """A wait or poll came true: what its phase's release arrivals knew is known here."""
        b = s.bars[e.bar]
        if not b.seen and phase == b.phase - 1:
            b = s.bars[e.bar] = b._replace(seen=True)
        if "relaxed" in e.flags:
            s.H[g] |= (b.CH | b.CX) & self.all_marks
            self.held(s, g, 0, b.CH, b.CA)
            self.held(s, g, 1, b.CX, b.CXA)
        else:
            far = (b.CX, b.CXA) if "cluster" in e.flags else self.narrow(b.CX)
            self.join(s, g, b.CH | far[0], b.CA | far[1])
        self.landed((s.node[g], -1), phase)
        self.wrote(g, s.node[g], phase)

    def complete_for(self, s: State, g: int, e: Event) -> bool:
        """Whether the phase that a wait or poll asks about is complete; a try_wait may still say no."""
        b = s.bars[e.bar]
        if e.op is Op.WAIT or e.op is Op.POLL:
            return b.phase % 2 != e.key
        return b.phase > dict(s.tokens[g]).get(e.token, -1)

    def lifetime(self, s: State, g: int, e: Event) -> None:
        b = s.bars[e.bar]
        name = self.p.bars[e.bar].name
        by = self.p.accesses[e.bits[0]].friend
        again = b.alive and by == b.by and (b.phase, b.pending, b.tx) == (0, e.count, 0)
        if e.op is Op.INIT and ((b.alive and not again) or (self.p.strict and (again or e.n > 1))):
            self.harm("ub", "SV205", f"{e.text}: {name} is alive, and not invalidated first", e, g, True)
            return
        if e.op is Op.INVAL and (not b.alive or e.n > 1):
            self.harm("ub", "SV205", f"{e.text}: {name} is not alive", e, g, True)
            return
        self.accesses_of_object(s, g, e)
        if e.op is Op.INIT and again:  # it stores what is there
            s.bars[e.bar] = b._replace(init=b.init | e.cells[0][1])
        elif e.op is Op.INIT:
            s.bars[e.bar] = Bar(
                alive=True,
                ever=True,
                pending=e.count,
                expected=e.count,
                init=e.cells[0][1],
                by=() if b.ever else by,
            )
        else:
            s.bars[e.bar] = b._replace(alive=False)
        self.wrote(g, s.node[g])
