"""Steps a witness through the simulator and judges its claim by the simulator's own semantics."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from syncverify.base.diagnostics import Blocked, Claim, Policy, Step, Witness
from syncverify.base.source import InputError, Span
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int
from syncverify.simulate.ir.build import build
from syncverify.simulate.ir.explore import MAX_CLUSTERS
from syncverify.simulate.ir.facts import together
from syncverify.simulate.ir.harms import blocked, steps
from syncverify.simulate.ir.launch import Launch, grid_of, launch_values
from syncverify.simulate.ir.machine import Machine
from syncverify.simulate.ir.program import NO_MEMORY, Event, Op, Program
from syncverify.simulate.ir.state import END, Found
from syncverify.simulate.ir.trace import Unsupported

_AGENT = re.compile(r"cta(\d+)\.warp(\d+)\.lanes(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)(?:\.async(\d+))?\Z")
CONTINUATIONS = 10  # random ends of a witness that stops short of the harm
OTHER_RUNS = 20  # random schedules to compare phases with, for an order violation


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Whether the claim came true, why (not), and what was executed."""

    reproduced: bool
    reason: str
    trace: tuple[Step, ...]
    blocked: tuple[Blocked, ...] = ()


@dataclass(frozen=True, slots=True)
class Actor:
    """Who a step names: lanes of a warp, or (``seq``) an asynchronous operation of theirs."""

    cta: int
    warp: int
    lanes: int
    seq: int | None


class _Stray(Exception):  # noqa: N818 -- the witness cannot be together
    pass


def actor(text: str, span: Span) -> Actor:
    """An agent's name, taken apart."""
    m = _AGENT.match(text)
    if m is None:
        raise InputError(f"malformed agent {text!r}; expected e.g. cta0.warp3.lanes0-31", span)
    lanes = 0
    for part in m[3].split(","):
        lo, _, hi = part.partition("-")
        if int(hi or lo) > 31 or int(lo) > int(hi or lo):
            raise InputError(f"malformed lanes in agent {text!r}", span)
        for lane in range(int(lo), int(hi or lo) + 1):
            lanes |= 1 << lane
    return Actor(int(m[1]), int(m[2]), lanes, None if m[4] is None else int(m[4]))


def from_dict(data: Mapping[str, Any]) -> Witness:
    """A witness from JSON data in the contract's form."""
    try:
        return Witness(
            claim=Claim(data["claim"]),
            rule=str(data.get("rule", "")),
            message=str(data.get("message", "")),
            steps=tuple(
                Step(
                    str(s["agent"]),
                    Span(str(s.get("file", "")), int(s["line"])),
                    str(s["op"]),
                    s.get("barrier"),
                    s.get("phase"),
                )
                for s in data["steps"]
            ),
            blocked=tuple(
                Blocked(
                    str(b["agent"]),
                    Span(str(b.get("file", "")), int(b["line"])),
                    str(b["waits_on"]),
                    b.get("phase"),
                    str(b.get("why", "")),
                )
                for b in data.get("blocked", ())
            ),
            kernel=str(data.get("kernel", "")),
            file=str(data.get("file", "")),
            policy=Policy(data.get("policy", "practical")),
            values={str(k): int(v) for k, v in data.get("values", {}).items()},
            block=tuple(data.get("block", (0, 0, 0))),
            elected_lane=int(data.get("elected_lane", 0)),
            grid=tuple(data["grid"]) if data.get("grid") else None,
            registers=data.get("registers"),
        )
    except KeyError as e:
        raise InputError(f"malformed witness: {e.args[0]!r} is missing") from e
    except (TypeError, ValueError, AttributeError) as e:
        raise InputError(f"malformed witness: {e}") from e


def replay(witness: Witness | Mapping[str, Any], kernel: n.Kernel) -> ReplayResult:
    """Follows the witness's steps, then says whether its claim holds there."""
    w = witness if isinstance(witness, Witness) else from_dict(witness)
    actors = [actor(s.agent, s.span) for s in w.steps]
    kernel = _relaunched(kernel, w)
    launch = _launch(kernel, w)
    try:
        p = build(launch, _cuts(actors, w), skew=False)
    except Unsupported as u:
        return ReplayResult(False, f"not simulated: {u.message}", ())
    result = _attempt(p, launch, w, actors, late=False)
    if not result.reproduced and w.claim is Claim.UB:
        # Where a copy's completion enables nobody, it may as well come after everything else.
        again = _attempt(p, launch, w, actors, late=True)
        result = again if again.reproduced else result
    return result


def _attempt(p: Program, launch: Launch, w: Witness, actors: list[Actor], late: bool) -> ReplayResult:
    player = _Player(p)
    player.late = late
    try:
        for step, who in zip(w.steps, actors, strict=True):
            player.follow(step, who)
            if player.m.stopped:
                break
    except _Stray as e:
        found = player.pick(w) if w.claim in (Claim.UB, Claim.STALE_VALUE) else None
        if found is None or found.rule != w.rule:
            return ReplayResult(False, str(e), steps(p, player.m))
        return ReplayResult(True, found.message, steps(p, player.m))
    done, reason = player.order(launch) if w.claim is Claim.ORDER_VIOLATION else player.judge(w)
    return ReplayResult(done, reason, steps(p, player.m), blocked(p, player.s))


def _relaunched(kernel: n.Kernel, w: Witness) -> n.Kernel:
    launch = kernel.launch
    if w.grid is not None:
        x, y, z = w.grid
        launch = replace(launch, grid=(Int(x), Int(y), Int(z)))
    if w.registers is not None:
        launch = replace(launch, registers=w.registers)
    return replace(kernel, launch=launch)


def _launch(kernel: n.Kernel, w: Witness) -> Launch:
    values = launch_values(
        kernel, {k: v for k, v in w.values.items() if any(p.name == k for p in kernel.params)}
    )
    grid = grid_of(kernel, values)
    cx, cy, cz = kernel.launch.cluster
    bx, by, bz = w.block
    if not (0 <= bx < grid[0] and 0 <= by < grid[1] and 0 <= bz < grid[2]):
        raise InputError(f"the witness's block {w.block} is not in the grid {grid}")
    count = max(1, grid[0] * grid[1] * grid[2] // kernel.launch.ctas)
    if together(kernel):
        clusters = tuple(range(min(count, MAX_CLUSTERS)))
    else:
        per_x, per_y = max(1, grid[0] // cx), max(1, grid[1] // cy)
        clusters = (bx // cx + by // cy * per_x + bz // cz * per_x * per_y,)
    return Launch(kernel, values, grid, clusters, w.elected_lane, w.policy is Policy.STRICT)


def _cuts(actors: list[Actor], w: Witness) -> dict[tuple[int, int], list[int]]:
    """Lane masks by warp that the witness distinguishes."""
    cuts: dict[tuple[int, int], list[int]] = {}
    for a in [*actors, *(actor(b.agent, b.span) for b in w.blocked)]:
        masks = cuts.setdefault((a.cta, a.warp), [])
        if a.lanes not in masks:
            masks.append(a.lanes)
    return cuts


class _Player:
    """One machine, moved by hand."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.m = Machine(p)
        self.m.log = []
        self.s = self.m.initial(settled=False)
        self.counted = [False] * len(p.groups)  # a step for where the group still waits is done
        self.late = False  # land copies only when somebody needs it

    def groups(self, who: Actor, name: str) -> list[int]:
        found = [
            g
            for g, x in enumerate(self.p.groups)
            if x.cta == who.cta and x.warp == who.warp and not x.lanes & ~who.lanes
        ]
        if not found:
            raise _Stray(f"the kernel has no threads {name}")
        return found

    def follow(self, step: Step, who: Actor) -> None:
        """Advances the lanes that a step names until they have executed the operation on its line."""
        self.look()
        for g in self.groups(who, step.agent):
            if who.seq is not None:
                self.land(g, who.seq, step)
            else:
                self.advance(g, step)

    def advance(self, g: int, step: Step) -> None:
        while not self.m.stopped:
            if self.s.node[g] == END:
                raise _Stray(f"{step.agent} has left before line {step.span.line} ({step.op})")
            e = self.p.events[self.s.node[g]]
            here = e.line == step.span.line and e.ends and e.op is not Op.EXIT and not self.counted[g]
            if here and e.op in (Op.WGMMA_WAIT, Op.REGISTERS) and not self.m.can(self.s, g):
                self.counted[g] = True  # it has come here; it goes on when others have done their part
                return
            self.counted[g] = False
            self.one(g, step)
            if here:
                if self.s.node[g] != END and self.p.events[self.s.node[g]].op is Op.EXIT:
                    self.m.private(self.s, g, self.p.events[self.s.node[g]], [])
                return

    def one(self, g: int, step: Step) -> None:
        """One event of a group, or _Stray if it is blocked."""
        node = self.s.node[g]
        e = self.p.events[node]
        if e.op <= Op.EXIT:
            self.m.private(self.s, g, e, [])
            return
        if not self.m.can(self.s, g) and e.bar >= 0:
            self.arrivals(e.bar)
            if self.late:
                self.arrivals(e.bar, copies=True)
        if not self.m.can(self.s, g) and e.op is Op.WARP_SYNC and e.key & NO_MEMORY:
            self.gather(g, e)
            if self.s.node[g] != node:
                return
        if not self.m.can(self.s, g):
            raise _Stray(
                f"{self.p.groups[g].name} is blocked at line {e.line} ({e.text}) and cannot reach line "
                f"{step.span.line} ({step.op})"
            )
        answer = int(
            e.op in (Op.POLL, Op.POLL_TOKEN) and self.m.complete_for(self.s, g, e) and self.wants(g, step)
        )
        self.m.visible(self.s, g, answer, [])

    def gather(self, g: int, meeting: Event) -> None:
        """The other lanes of the warp come to its ``elect``: steps name one of several classes first."""
        who = self.p.groups[g]
        for h in self.p.warp_groups[who.cta, who.warp]:
            while h != g and self.s.node[h] != END and not self.m.stopped:
                e = self.p.events[self.s.node[h]]
                met = e.op is Op.WARP_SYNC and e.key == meeting.key
                if not (met or e.op < Op.EXIT) or not self.m.can(self.s, h):
                    break
                if met:
                    self.m.visible(self.s, h, 0, [])
                    break
                self.m.private(self.s, h, e, [])

    def look(self) -> None:
        """Polls whose answer nobody heeds look as soon as they can: witnesses do not name them."""
        for g, node in enumerate(self.s.node):
            if node != END and not self.m.stopped and self.p.events[node].op in (Op.POLL, Op.POLL_TOKEN):
                no, yes = self.p.after[node]
                if self.m.can(self.s, g) and self.alike(no, yes):
                    self.m.visible(self.s, g, int(self.m.complete_for(self.s, g, self.p.events[node])), [])

    def alike(self, a: int, b: int) -> bool:
        """Whether two ways on are the same events, as far as the next poll."""
        while a != b:
            if END in (a, b):
                return False
            x, y = self.p.events[a], self.p.events[b]
            if (x.op, x.line, x.bar, x.key) != (y.op, y.line, y.bar, y.key) or x.op in (
                Op.POLL,
                Op.POLL_TOKEN,
            ):
                return False
            a, b = self.p.after[a][0], self.p.after[b][0]
        return True

    def wants(self, g: int, step: Step) -> bool:
        """Which answer of a poll leads to the step's line."""
        true = self.p.after[self.s.node[g]][1]
        return self.distance(true, step.span.line) <= self.distance(
            self.p.after[self.s.node[g]][0], step.span.line
        )

    def distance(self, node: int, line: int) -> int:
        far = 0
        while node != END and self.p.events[node].line != line:
            node, far = self.p.after[node][0], far + 1
        return far if node != END else 1 << 30

    def land(self, g: int, seq: int, step: Step) -> None:
        """Completes an asynchronous operation; one without a barrier completes unnoticed."""
        todo = [i for i, a in enumerate(self.p.asyncs) if a.group == g and a.seq == seq and not a.arrive]
        while todo and not any(self.s.fly >> i & 1 for i in todo):
            ahead = self.s.node[g]
            if ahead == END:
                return
            e = self.p.events[ahead]
            if e.op > Op.EXIT and not self.m.can(self.s, g):
                raise _Stray(f"{step.agent} completes an operation that was not issued")
            if any(i in e.asyncs for i in todo) or e.op <= Op.EXIT:
                self.one(g, step)
                continue
            raise _Stray(f"{step.agent} completes an operation that was not issued")
        for i in todo:
            if self.s.fly >> i & 1 and not self.m.stopped and not self.late:
                self.m.complete(self.s, i)

    def arrivals(self, bar: int, copies: bool = False) -> None:
        """cp.async.mbarrier.arrive fires when its copies are done: witnesses name the copies only."""
        for i, a in enumerate(self.p.asyncs):
            if (a.arrive or copies) and a.bar == bar and self.s.fly >> i & 1 and not self.m.stopped:
                self.m.complete(self.s, i)

    # -- the claim ----------------------------------------------------------------

    def judge(self, w: Witness) -> tuple[bool, str]:
        claim = w.claim
        if claim is Claim.HANG:
            return self.hang(w)
        found = self.pick(w)
        if found is not None and found.rule == w.rule:
            return True, found.message
        other = found  # of another rule: the claimed one may come later
        for seed in self.continuations():
            self.finish(random.Random(seed), lands_first=not self.late)
            found = self.pick(w)
            if found is not None and (other is None or found.rule == w.rule):
                return True, f"{found.message} (after the witness's last step)"
        if other is not None:
            return True, f"{other.message} ({other.rule})"
        return False, f"no {claim} was met"

    def continuations(self) -> Iterator[int]:
        """Seeds of ways to go on, each from here; the log keeps the last of them."""
        start, stopped, said = self.s, self.m.stopped, len(self.m.log or ())
        for seed in range(CONTINUATIONS):
            self.s, self.m.stopped = start.copy(), stopped
            if self.m.log is not None:
                del self.m.log[said:]
            yield seed

    def pick(self, w: Witness) -> Found | None:
        """A harm of the claimed kind, of the claimed rule if there is one."""
        fixed = [Found(c, r, m, s, 0) for c, r, m, s in self.p.static_harms]
        both = [*self.m.found, *fixed]
        same = [f for f in both if f.claim == str(w.claim)]
        # A race is undefined behaviour too: the same rule under the other name is the same claim.
        alike = [f for f in both if f.rule == w.rule and f.claim in ("ub", "stale-value")]
        return next((f for f in same if f.rule == w.rule), alike[0] if alike else same[0] if same else None)

    def finish(self, rng: random.Random, lands_first: bool = True, skewed: bool = False) -> None:
        """Goes on until nobody can. ``skewed``: some groups and copies are slow for a while."""
        m, s = self.m, self.s
        m.stopped = False
        slow: set[int] = set()
        while not m.stopped:
            flying = [-1 - i for i in range(s.fly.bit_length()) if s.fly >> i & 1]
            ready = [g for g in range(len(s.node)) if s.node[g] != END and m.can(s, g)]
            if not flying and not ready:
                return
            if skewed:
                if rng.random() < 0.1:
                    slow = {x for x in [*flying, *ready] if rng.random() < 0.5}
                choice = [x for x in [*flying, *ready] if x not in slow] or [*flying, *ready]
            else:
                choice = (flying or ready) if lands_first else (ready or flying)
            g = rng.choice(choice)
            if g < 0:
                m.complete(s, -1 - g)
                continue
            e = self.p.events[s.node[g]]
            if e.op <= Op.EXIT:
                m.private(s, g, e, [])
            else:
                m.visible(s, g, int(e.op in (Op.POLL, Op.POLL_TOKEN) and m.complete_for(s, g, e)), [])

    def hang(self, w: Witness) -> tuple[bool, str]:
        """Nobody can ever go on, and those whom the witness names are among them."""
        elsewhere = ""
        for seed in self.continuations():
            self.finish(random.Random(seed))
            if self.m.stopped:
                worse = self.m.found[-1]
                blamed = worse.rule == w.rule or any(worse.span.line == b.span.line for b in w.blocked)
                return blamed, f"undefined behaviour before the hang: {worse.message}"
            stuck = [g for g, node in enumerate(self.s.node) if node != END]
            if not stuck:
                parted = self.parted(w)
                return bool(parted), parted or "every thread leaves the kernel"
            places = {
                b.agent: [g for g in self.groups(actor(b.agent, b.span), b.agent) if g in stuck]
                for b in w.blocked
            }
            free = next((name for name, mine in places.items() if not mine), None)
            if free is not None:
                return False, f"{free} does not stay blocked"
            reason = "nobody can go on; blocked: " + ", ".join(self.p.groups[g].name for g in stuck)
            if all(self.lines(places[b.agent]) & {b.span.line, 0} for b in w.blocked):
                return True, reason
            elsewhere = elsewhere or f"{reason}; some of them at other lines than the witness says"
        return True, elsewhere

    def parted(self, w: Witness) -> str:
        """Whether those whom the witness calls blocked stand at an instruction that their warp parts on.

        The simulator lets them pass and calls it undefined (PTX ISA: .sync and .aligned instructions).
        """
        lines = {b.span.line for b in w.blocked}
        found = next(
            (m for _, r, m, s in self.p.static_harms if r in ("SV302", "SV303") and s.line in lines), ""
        )
        return found and f"undefined instead of a hang: {found}"

    def lines(self, groups: list[int]) -> set[int]:
        return {self.p.events[self.s.node[g]].line for g in groups}

    def order(self, launch: Launch) -> tuple[bool, str]:
        """Some operation lands here in another phase than the same lanes' does in some other execution."""
        self.finish(random.Random(0))
        stated = next((f for f in self.m.found if f.claim == "order-violation"), None)
        if stated is not None:
            return True, stated.message
        mine = self.instances()
        other_program = build(launch)
        for seed in range(OTHER_RUNS):
            other = _Player(other_program)
            other.m.log = None
            other.finish(random.Random(seed), skewed=True)
            for (cta, warp, line, nth, lanes), (phase, text) in other.instances().items():
                for (c, w, at, k, also), (here, _) in mine.items():
                    if (c, w, at, k) == (cta, warp, line, nth) and lanes & also and here != phase:
                        return True, f"{text} lands in phase {here} here and in phase {phase} elsewhere"
        left = [self.p.bars[i].name for i, b in enumerate(self.s.bars) if b.alive and not b.pending]
        if left and all(x == END for x in self.s.node):
            return True, f"{left[0]} stays open with every arrival made"
        return False, "every operation lands in the phase it always lands in"

    def instances(self) -> dict[tuple[int, int, int, int, int], tuple[int, str]]:
        """Phases by CTA, warp, line, how often the lanes were there, and lanes."""
        p = self.p
        starts = sorted((node, g) for g, node in enumerate(p.start))
        times: dict[tuple[int, int], int] = {}
        nth: list[int] = []
        owner: list[int] = []
        following = 0
        for node, e in enumerate(p.events):
            while following < len(starts) and starts[following][0] <= node:
                following += 1
            g = starts[following - 1][1]
            times[g, e.line] = times.get((g, e.line), 0) + 1
            nth.append(times[g, e.line])
            owner.append(g)
        out: dict[tuple[int, int, int, int, int], tuple[int, str]] = {}
        for (node, op), phase in self.m.phases.items():
            if node >= 0:
                who, e = p.groups[owner[node]], p.events[node]
                out[who.cta, who.warp, e.line, nth[node], who.lanes] = (phase, e.text)
            else:
                a = p.asyncs[op]
                who = p.groups[a.group]
                out[who.cta, who.warp, a.span.line, -1 - a.seq, who.lanes] = (phase, a.text)
        return out
