"""Every schedule of a small kernel, or many random ones of a large kernel, with the harms they show."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from syncverify.base.diagnostics import Policy, Step
from syncverify.base.source import Span
from syncverify.ir import nodes as n
from syncverify.simulate.ir.build import build
from syncverify.simulate.ir.facts import elected_lanes, mentions_block, together
from syncverify.simulate.ir.harms import Exploration, Harm, Result, blocked, hang_rule, steps
from syncverify.simulate.ir.launch import Launch, grid_of, launch_values
from syncverify.simulate.ir.machine import Machine
from syncverify.simulate.ir.program import Op, Program
from syncverify.simulate.ir.reduce import Reducer
from syncverify.simulate.ir.state import END, Found, State
from syncverify.simulate.ir.trace import Unsupported

#: Clusters that are simulated beside one another.
MAX_CLUSTERS = 16
#: Blocks, one at a time, whose control is compared; kernels rarely tell more apart than first and last.
MAX_BLOCKS = 256
BARRIERS = (Op.BAR_SYNC, Op.BAR_ARRIVE)
#: States still visited once a harm is found, for other harms.
AFTER_HARM = 10_000
#: ``(group entity or async op, what)``: "step", "true" (a poll), "land", "part".
Action = tuple[str, int]


def launches(
    kernel: n.Kernel, values: Mapping[str, int], policy: Policy, seed: int = 0
) -> tuple[list[Launch], bool]:
    """What has to be simulated: blocks that may differ, and lanes to elect, of which some are drawn."""
    vals = launch_values(kernel, values)
    grid = grid_of(kernel, vals)
    count = max(1, grid[0] * grid[1] * grid[2] // kernel.launch.ctas)
    strict = policy is Policy.STRICT
    whole = True
    picks: list[tuple[int, ...]]
    if together(kernel):
        whole = count <= MAX_CLUSTERS
        picks = [tuple(range(min(count, MAX_CLUSTERS)))]
    elif mentions_block(kernel):
        whole = count <= MAX_BLOCKS
        ends = range(count) if whole else (*range(MAX_BLOCKS // 2), *range(count - MAX_BLOCKS // 2, count))
        picks = [(c,) for c in ends]
    else:
        picks = [(0,)]
    return [
        Launch(kernel, vals, grid, p, lane, strict) for p in picks for lane in elected_lanes(kernel, seed)
    ], whole


def signature(p: Program) -> object:
    """Equal for launches that behave the same."""
    return (
        tuple((g.cta, g.warp, g.lanes) for g in p.groups),
        tuple(p.after),
        tuple(p.start),
        tuple(
            (e.op, e.bar, e.n, e.count, e.bytes, e.mask, e.key, e.token, e.cells, e.asyncs) for e in p.events
        ),
        tuple((a.bar, a.bytes, a.mask, a.memory) for a in p.asyncs),
        tuple(p.static_harms),
    )


def programs(
    kernel: n.Kernel, values: Mapping[str, int], policy: Policy, seed: int = 0
) -> tuple[list[tuple[Launch, Program]], bool]:
    todo, whole = launches(kernel, values, policy, seed)
    seen: set[object] = set()
    out: list[tuple[Launch, Program]] = []
    for launch in todo:
        p = build(launch)
        if len(todo) > 1:
            key = signature(p)
            if key in seen:
                continue
            seen.add(key)
        out.append((launch, p))
    return out, whole


def explore(
    kernel: n.Kernel,
    values: Mapping[str, int] | None = None,
    *,
    policy: Policy = Policy.PRACTICAL,
    limit_states: int = 50_000,
    first_only: bool = False,
) -> Exploration:
    """Tries every schedule; ``first_only`` ends at the first harm. InputError for bad launch values."""
    result = Result()
    try:
        todo, result.complete = programs(kernel, values or {}, policy)
    except Unsupported as u:
        return Exploration((), False, 0, f"{u.span}: {u.message}")
    for launch, p in todo:
        _Search(launch, p, result, limit_states, first_only).run()
        if first_only and (result.harms or (launch.strict and result.differences)):
            result.complete = False
            break
    return _done(result)


def sample(
    kernel: n.Kernel,
    values: Mapping[str, int] | None = None,
    seed: int = 0,
    runs: int = 100,
    *,
    policy: Policy = Policy.PRACTICAL,
) -> Exploration:
    """Seeded random schedules of kernels too large for ``explore``; never complete."""
    result = Result(complete=False)
    try:
        todo, _ = programs(kernel, values or {}, policy, seed)
    except Unsupported as u:
        return Exploration((), False, 0, f"{u.span}: {u.message}")
    rng = random.Random(seed)
    for launch, p in todo:
        search = _Search(launch, p, result, 0, False)
        search.statics()
        for _ in range(max(1, runs // len(todo))):
            search.walk(rng)
    return _done(result)


def _done(r: Result) -> Exploration:
    harms = (*r.harms.values(), *r.differences.values())
    return Exploration(harms, r.complete, r.states, None, tuple(r.differences.values()))


class _Search:
    """Depth-first search over the states of one launch."""

    def __init__(self, launch: Launch, p: Program, result: Result, limit: int, first_only: bool) -> None:
        self.launch, self.p, self.result = launch, p, result
        self.limit, self.first_only = limit, first_only
        self.m = Machine(p)
        self.reducer = Reducer(self.m)
        self.parent: list[int] = [-1]
        self.action: list[Action] = [("", 0)]

    # -- actions ------------------------------------------------------------------

    def actions(self, s: State) -> list[Action]:
        p, m = self.p, self.m
        out: list[Action] = []
        for i, entity in enumerate(p.entities):
            for g in entity:
                if s.node[g] != END and m.can(s, g):
                    out.append(("step", i))
                    if p.events[s.node[g]].op in (Op.POLL, Op.POLL_TOKEN) and m.complete_for(
                        s, g, p.events[s.node[g]]
                    ):
                        out.append(("true", i))
                    break
        fly = s.fly
        while fly:
            low = fly & -fly
            op = low.bit_length() - 1
            out.append(("land", op))
            a = p.asyncs[op]
            b = s.bars[a.bar]
            # A piece matters only where it brings the count to zero (PTX ISA, Phase completion).
            if not a.arrive and b.pending == 0 and 0 < b.tx < dict(s.partial).get(op, a.bytes):
                out.append(("part", op))
            fly ^= low
        return out

    def perform(self, s: State, action: Action) -> None:
        """Changes ``s`` by one action and everything private after it."""
        m, (kind, i) = self.m, action
        if kind == "land":
            m.complete(s, i)
            return
        if kind == "part":
            m.complete(s, i, s.bars[self.p.asyncs[i].bar].tx)
            return
        members = self.p.entities[i]
        if len(members) > 1:
            least = min(
                (s.node[g] - self.p.start[g] for g in members if s.node[g] != END and m.can(s, g)), default=0
            )
            members = tuple(g for g in members if s.node[g] != END and s.node[g] - self.p.start[g] == least)
        for g in members:
            if s.node[g] == END or not m.can(s, g) or m.stopped:
                continue
            work = [g]
            m.visible(s, g, int(kind == "true"), work)
            if not m.stopped:
                m.settle(s, work)

    # -- search -------------------------------------------------------------------

    def statics(self) -> None:
        for claim, rule, message, span in self.p.static_harms:
            harm = Harm(claim, rule, message, span, None, "", self.launch.clusters[0], self.launch.elected)
            self.result.harms.setdefault((claim, rule, span.line, 0), harm)

    def run(self) -> None:
        self.statics()
        start = self.m.initial()
        self.report(0, None)
        if self.m.stopped:
            return
        seen = {self.m.key(start)}
        stack = [(start, 0)]
        while stack:
            s, index = stack.pop()
            self.result.states += 1
            actions = self.actions(s)
            if not actions:
                self.stuck(s, index)
            elif len(actions) > 1:
                steps_of = [i for kind, i in actions if kind == "step"]
                only = self.reducer.alone(s, steps_of, [i for kind, i in actions if kind == "land"])
                if only is not None:
                    actions = [
                        a for a in actions if a == only or (only[0] == "step" and a == ("true", only[1]))
                    ]
            for i, a in enumerate(actions):
                t = s.copy() if i < len(actions) - 1 else s
                self.m.stopped = False
                self.perform(t, a)
                if self.m.found or self.m.differs:
                    self.report(index, a)
                    if self.first_only and self.result.harms:
                        return
                    if self.result.harms:
                        self.limit = min(self.limit, len(seen) + AFTER_HARM)
                if self.m.stopped:
                    continue
                k = self.m.key(t)
                if k in seen:
                    continue
                seen.add(k)
                if len(seen) > self.limit:
                    self.result.complete = False
                    return
                self.parent.append(index)
                self.action.append(a)
                stack.append((t, len(self.parent) - 1))

    def walk(self, rng: random.Random) -> None:
        """One random schedule: some actors are slow for a while, so that others can lap them."""
        s = self.m.initial()
        path: list[Action] = []
        slow: set[Action] = set()
        while True:
            self.result.states += 1
            if self.m.found or self.m.differs:
                self.report(-1, None, path)
            if self.m.stopped:
                self.m.stopped = False
                return
            actions = self.actions(s)
            if not actions:
                self.stuck(s, -1, path)
                return
            if rng.random() < 0.05:
                slow = {a for a in actions if rng.random() < 0.5}
            quick = [a for a in actions if a not in slow] or actions
            a = rng.choice(quick)
            path.append(a)
            self.perform(s, a)

    # -- reports ------------------------------------------------------------------

    def path(self, index: int, last: Action | None) -> list[Action]:
        out = [last] if last is not None else []
        while index > 0:
            out.append(self.action[index])
            index = self.parent[index]
        return out[::-1]

    def schedule(self, path: Sequence[Action]) -> tuple[Step, ...]:
        """The steps of a path, by running it again with a log."""
        m = Machine(self.p)
        m.log = []
        old, self.m = self.m, m
        try:
            s = m.initial()
            for a in path:
                if m.stopped:
                    break
                self.perform(s, a)
        finally:
            self.m = old
        return steps(self.p, m)

    def report(self, index: int, last: Action | None, path: Sequence[Action] | None = None) -> None:
        harms, m = self.result.harms, self.m
        made: tuple[Step, ...] | None = None
        for f in m.found:
            if f.key in harms:
                continue
            if made is None:
                made = self.schedule(path if path is not None else self.path(index, last))
            harms[f.key] = self.harm(f, made)
        for instance in m.differs:
            e = self.p.events[instance[0]] if instance[0] >= 0 else None
            a = self.p.asyncs[instance[1]] if e is None else None
            span = e.span if e is not None else a.span if a is not None else Span()
            text = e.text if e is not None else a.text if a is not None else ""
            waits = e is not None and e.op in (Op.WAIT, Op.WAIT_TOKEN, Op.POLL, Op.POLL_TOKEN)
            rule = "SV301" if e is not None and e.op in BARRIERS else "SV201" if waits else "SV206"
            key = ("order-violation", rule, span.line, 0)
            if key not in self.result.differences:
                made = (
                    self.schedule(path if path is not None else self.path(index, last))
                    if made is None
                    else made
                )
                self.result.differences[key] = Harm(
                    "order-violation",
                    rule,
                    f"{text} can land in different phases",
                    span,
                    None,
                    "",
                    self.launch.clusters[0],
                    self.launch.elected,
                    made,
                )
        m.found.clear()
        m.differs.clear()

    def harm(self, f: Found, made: tuple[Step, ...]) -> Harm:
        return Harm(
            f.claim,
            f.rule,
            f.message,
            f.span,
            f.other,
            self.p.groups[f.group].name,
            self.launch.clusters[0],
            self.launch.elected,
            made,
        )

    def stuck(self, s: State, index: int, path: Sequence[Action] | None = None) -> None:
        """No step is possible: fine if all have left, else a hang."""
        waiting = [g for g in range(len(s.node)) if s.node[g] != END]
        if not waiting:
            self.left_open(s, index, path)
            return
        e = self.p.events[s.node[waiting[0]]]
        rule = hang_rule([self.p.events[s.node[g]] for g in waiting])
        key = ("hang", rule, e.line, 0)
        if key in self.result.harms:
            return
        made = self.schedule(path if path is not None else self.path(index, None))
        self.result.harms[key] = Harm(
            "hang",
            rule,
            f"{self.p.groups[waiting[0]].name} waits for ever: {e.text}",
            e.span,
            None,
            self.p.groups[waiting[0]].name,
            self.launch.clusters[0],
            self.launch.elected,
            made,
            blocked(self.p, s),
        )

    def left_open(self, s: State, index: int, path: Sequence[Action] | None) -> None:
        """All have left, but a phase has its arrivals and can never close, or a round is begun."""
        for barrier, named in s.named.items():
            for _, _, _, node in named.brought if barrier[0] == 0 else ():
                self.m.landed((node, -1), s.rounds.get(barrier, 0))
        self.report(index, None, path)
        for bar, b in enumerate(s.bars):
            if not b.alive or b.pending:
                continue
            name = self.p.bars[bar].name
            key = ("order-violation", "SV203", 0, bar)
            if key not in self.result.differences:
                made = self.schedule(path if path is not None else self.path(index, None))
                last = next((x for x in reversed(made) if x.barrier == name), None)
                self.result.differences[key] = Harm(
                    "order-violation",
                    "SV203",
                    f"{name} stays open with no arrival missing and {b.tx} bytes",
                    last.span if last else Span(),
                    None,
                    "",
                    self.launch.clusters[0],
                    self.launch.elected,
                    made,
                )


__all__ = ["Exploration", "Harm", "explore", "sample"]
