"""Ranks of a protocol: a few templates for the steps of loops, the rest by longest paths.

A rank is ``(block, epoch, step, tile, late, group, n, level)``. ``block`` orders roles that hand on to each
other one way alone, such as blocks of which one adds up what another one stores. ``epoch`` counts
the barriers of all such roles in straight code. ``step`` is the loop's counter, or where the loop begins or
ends; ``tile`` the tile; ``late`` is 1 behind the loop. What ties there is distinguished by ``group``, of a
stretch of code, and inside it by ``level``; both are longest paths along the edges that tie in samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from syncverify.checker.kernel.accounting import changes, held
from syncverify.checker.kernel.hops import CONTRIBUTIONS, MEETINGS, Graph
from syncverify.checker.kernel.linear import ZERO, Term, apply, num
from syncverify.checker.kernel.obligations import impossible
from syncverify.checker.kernel.protocol import Kind, Loop, N, Site, Tiles, U
from syncverify.checker.kernel.ranks import Around, Higher, asynchronous, growing, pool
from syncverify.checker.prover.protocols.claims import NotFoundError
from syncverify.checker.prover.protocols.multipliers import entails
from syncverify.checker.prover.protocols.search import Search
from syncverify.checker.prover.protocols.sizes import value

Rank = tuple[Term, ...]
#: The tile of straight code before all loops of an epoch.
_FIRST = -9
Key = tuple[int, bool]
SAMPLES = 12


def ranks(search: Search) -> dict[Key, Rank]:
    """Ranks that grow along every edge in all samples; NotFoundError where no template gives any."""
    g = search.g
    parts = _parts(g)
    epochs = _epochs(g, parts)
    blocks = _blocks(g, parts)
    bare = [i for i, r in enumerate(g.p.roles) if any(isinstance(t, Tiles) and not _loops(t) for t in r.body)]
    why = "no ranks"

    @cache
    def stretches(role: int, epoch: int) -> list[_Stretch]:
        return _stretches(g, role, epoch, epochs, search.base)

    for late in itertools.product((1, 0), repeat=min(len(bare), 6)):
        ends = {i for i, x in zip(bare, late, strict=False) if x}
        own = [_head(g, i, epochs, ends, stretches) for i in range(len(g.sites))]
        heads = [(num(blocks[i]), *head) for i, head in enumerate(_met(g, own))]
        try:
            return _Levels(search, heads, requests(g)).ranks()
        except NotFoundError as e:
            why = str(e)
    raise NotFoundError(why)


def requests(g: Graph) -> dict[str, bool]:
    """What is shown of a change of registers against one that asks for more: true, the request waits for it;
    false, it comes after the request, at least one barrier of all roles later.
    """
    epochs = _epochs(g, _parts(g))
    out: dict[str, bool] = {}
    every, had = changes(g), held(g)
    for i, k in pool(g):
        role = g.sites[i].role
        at = every[role].index(i)
        if epochs[i] > epochs[k] or (role == g.sites[k].role and i > k):
            out[f"registers {i} {k}"] = False
        elif role == g.sites[k].role or g.sites[i].op.count < had[role][at]:
            out[f"registers {i} {k}"] = True
    return out


def _loops(t: Tiles) -> bool:
    return any(isinstance(b, Loop) for b in t.body)


def _edges(g: Graph) -> list[tuple[int, int]]:
    """Pairs of roles of which the second waits for what the first one does, but for registers."""
    edges: dict[tuple[int, int], None] = {}
    for ring in g.p.rings:
        come = {g.sites[i].role for i in g.of(ring, (*CONTRIBUTIONS, *MEETINGS))}
        wait = {g.sites[i].role for i in g.of(ring, (Kind.WAIT, Kind.SYNC))}
        edges |= dict.fromkeys((a, b) for a in come for b in wait if a != b)
    roles = range(len(g.p.roles))
    edges |= dict.fromkeys((a, b) for a in roles for b in roles if a != b and g.groups[a] & g.groups[b])
    return list(edges)


def _parts(g: Graph) -> dict[Hashable, int]:
    """For each role: the number of the roles that it depends on and that depend on it."""
    return components(range(len(g.p.roles)), _edges(g))


def _blocks(g: Graph, parts: Mapping[Hashable, int]) -> list[int]:
    """For each site: how many sets of roles that depend on each other come before its own, one by one; -1 for
    what comes before registers are moved, which roles of all sets wait for each other to do.
    """
    edges = [(parts[a], parts[b], 1) for a, b in _edges(g) if parts[a] != parts[b]]
    level = longest(set(parts.values()), edges)
    first = _before_registers(g) if edges else set()
    return [-1 if i in first else level[parts[s.role]] for i, s in enumerate(g.sites)]


def _before_registers(g: Graph) -> set[int]:
    """Sites up to where registers are moved, and up to meetings among these, in all roles that come there."""
    last = {s.role: i for i, s in enumerate(g.sites) if s.op.kind is Kind.REGISTERS}
    met: set[str] = set()
    while True:
        found = {i for i, s in enumerate(g.sites) if i <= last.get(s.role, -1)}
        new = {g.sites[i].op.ring for i in found if g.sites[i].op.kind in MEETINGS} - met
        if not new:
            return found
        met |= new
        for i in (i for ring in new for i in g.of(ring, MEETINGS)):
            role = g.sites[i].role
            last[role] = max(last.get(role, -1), i)


def _prefix(g: Graph, role: int) -> str | None:
    """The prefix sums by which a role counts its steps, or else the first ones of all."""
    loops = [q for t in g.p.roles[role].body if isinstance(t, Tiles) for q in t.body if isinstance(q, Loop)]
    named = sorted({f for q in loops for f in q.lo.functions()})
    return next(iter((*named, *g.p.prefix)), None)


def _epochs(g: Graph, parts: Mapping[Hashable, int]) -> list[int]:
    """For each site: twice the number of barriers before it that all roles meet at which its own depends on,
    and one more for such a barrier.
    """
    whole = {
        s.op.ring
        for s in g.sites
        if s.op.kind is Kind.SYNC
        and {g.sites[i].role for i in g.of(s.op.ring, MEETINGS)}
        == {r for r in range(len(g.p.roles)) if parts[r] == parts[s.role]}
        and all(
            not g.sites[i].position.loops and not g.sites[i].position.tiles for i in g.of(s.op.ring, MEETINGS)
        )
    }
    out: list[int] = []
    role, count = -1, 0
    for s in g.sites:
        if s.role != role:
            role, count = s.role, 0
        here = s.op.ring in whole and s.op.kind is Kind.SYNC
        out.append(count + 1 if here else count)
        count += 2 if here else 0
    return out


def _head(g: Graph, i: int, epochs: Sequence[int], ends: set[int], stretches: _Stretches) -> tuple[Term, ...]:
    """(epoch, step, tile, late) of a site."""
    s, epoch = g.sites[i], epochs[i]
    if epoch % 2:
        return num(epoch), ZERO, ZERO, ZERO
    body, at = g.p.roles[s.role].body, s.position
    part = at.segment // 2
    if at.tiles:
        step, tile, late = _in_tile(g, s, ends)
    else:
        before = [
            q for q, t in enumerate(body[: part + 1]) if isinstance(t, Tiles) and 2 * q + 1 < at.segment
        ]
        behind = [q for q, t in enumerate(body) if isinstance(t, Tiles) and 2 * q + 1 > at.segment]
        if before:
            t = body[before[-1]]
            assert isinstance(t, Tiles)
            f = _prefix(g, s.role)
            step, tile, late = (apply(f, t.count) if f else t.count), t.count, 1
            for q, loop in enumerate(body[: part + 1]):
                if q > before[-1] and isinstance(loop, Loop) and (q < part or at.inner > 0):
                    inside = q == part and at.loops
                    step, tile, late = (N, t.count + 1, 0) if inside else (loop.hi, t.count + 1, 1)
        elif behind:
            step, tile, late = ZERO, num(_FIRST), 0
        else:
            step, tile, late = _in_loops(s, stretches(s.role, epoch))
    return num(epoch), step, tile, num(late)


def _met(g: Graph, heads: Sequence[Rank]) -> list[Rank]:
    """The heads, where roles without loops come to meetings of others behind theirs: from there on they stand
    where these do.

    Example: the lanes that are not elected meet the elected one, which has made all copies before.
    """
    bare = {i for i, r in enumerate(g.p.roles) if not any(isinstance(x, Tiles | Loop) for x in r.body)}
    out = list(heads)
    at: dict[int, Rank] = {}
    for i, s in enumerate(g.sites):
        if s.role not in bare:
            continue
        others = g.of(s.op.ring, MEETINGS) if s.op.kind in MEETINGS else ()
        behind = [heads[k] for k in others if g.sites[k].role not in bare and heads[k][3] == num(1)]
        at[s.role] = behind[0] if behind else at.get(s.role, heads[i])
        same = at[s.role][0] == heads[i][0]
        out[i] = at[s.role] if same else heads[i]
    return out


def _in_tile(g: Graph, s: Site, ends: set[int]) -> tuple[Term, Term, int]:
    t = g.p.roles[s.role].body[s.position.segment // 2]
    assert isinstance(t, Tiles)
    tile = U * t.stride + t.first
    f = _prefix(g, s.role)
    step, late = (apply(f, tile) if f else tile), 0
    if s.role in ends:
        step, late = (apply(f, tile + 1) if f else tile + 1), 1
    for q, b in enumerate(((), *t.body)):
        if isinstance(b, Loop) and s.position.inner > 2 * q + 1:
            step, late = b.hi, 1
    if s.position.loops:
        step, late = N, 0
    return step, tile, late


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A loop on the scale of steps. ``ahead``: it comes before the steps that it works for are counted."""

    part: int
    start: Term
    end: Term
    offset: Term
    ahead: bool
    number: int


#: The loops of a role in an epoch.
_Stretches = Callable[[int, int], Sequence[_Stretch]]


def _stretches(
    g: Graph, role: int, epoch: int, epochs: Sequence[int], premises: Sequence[Term]
) -> list[_Stretch]:
    """The loops of a role in an epoch, the last first. Loops that begin where the next one ends go on
    counting.
    """
    body = g.p.roles[role].body
    parts = sorted(
        {
            t.position.segment // 2
            for i, t in enumerate(g.sites)
            if t.role == role and epochs[i] == epoch and t.position.loops
        },
        reverse=True,
    )
    found: list[_Stretch] = []
    for part in parts:
        loop = body[part]
        assert isinstance(loop, Loop)
        offset = _offset(g, role, part)
        start, end = loop.lo + offset, loop.hi + offset
        ahead = bool(found) and not entails(premises, found[-1].start - end)
        if ahead:
            start = end = found[-1].start
        found.append(_Stretch(part, start, end, offset, ahead, -len(found)))
    return found


def _offset(g: Graph, role: int, part: int) -> Term:
    """How far the iterations of a loop are ahead of its counter: by its first wait, or else contribution."""
    here = [s for s in g.sites if s.role == role and s.position.segment // 2 == part and s.position.loops]
    kinds = ((Kind.WAIT,), (Kind.ARRIVE, Kind.COPY), (Kind.SYNC,))
    for some in kinds:
        for s in here:
            if s.op.kind in some and s.op.index.parts.get("n") == 1:
                return s.op.index - N
    return ZERO


def _in_loops(s: Site, stretches: Sequence[_Stretch]) -> tuple[Term, Term, int]:
    """Straight code stands where the loop before it ends, or where the first one begins."""
    part = s.position.segment // 2
    counted = [x for x in stretches if not x.ahead]
    if not counted:
        return ZERO, num(_FIRST), 0  # it waits for nothing that loops do
    own = next((x for x in stretches if x.part == part), None)
    if own is not None and own.ahead:
        return own.start, num(own.number - 1), 0
    if own is not None and s.position.inner != 2:
        return (N + own.offset if s.position.loops else own.start), num(own.number), 0
    before = next((x for x in counted if x.part <= part), None)
    if before is None:
        return counted[-1].start, num(_FIRST), 0
    return before.end, num(before.number), 1


@dataclass(slots=True)
class _Levels:
    """Longest paths along the edges that tie."""

    search: Search
    heads: Sequence[tuple[Term, ...]]
    requests: Mapping[str, bool]
    ties: dict[tuple[Key, Key, int], None] = field(default_factory=dict)  # with the least advance of n

    def ranks(self) -> dict[Key, Rank]:
        g = self.search.g
        keys = [(i, False) for i in range(len(g.sites))] + [(i, True) for i in asynchronous(g)]
        self.collect(keys)
        groups = {k: self.group(k) for k in keys}
        between = [(groups[a], groups[b], 1) for a, b, _ in self.ties if groups[a] != groups[b]]
        parts = components(set(groups.values()), [(a, b) for a, b, _ in between])
        level = longest(
            set(parts.values()), [(parts[a], parts[b], 1) for a, b, _ in between if parts[a] != parts[b]]
        )
        nodes = {k: self.node(k) for k in keys}
        inside: list[tuple[Hashable, Hashable, int]] = []
        for a, b, ahead in self.ties:
            if parts[groups[a]] != parts[groups[b]] or ahead > 0:
                continue
            if ahead < 0:
                raise NotFoundError(f"ranks of sites {a[0]} and {b[0]} fall")
            if nodes[a] != nodes[b]:
                inside.append((nodes[a], nodes[b], 1))
        place = longest(set(nodes.values()), inside)
        out: dict[Key, Rank] = {}
        for i, done in keys:
            s = g.sites[i]
            n = N if s.position.loops else ZERO
            key = (i, done)
            out[key] = (*self.heads[i], num(level[parts[groups[key]]]), n, num(place[nodes[key]]))
        return out

    def collect(self, keys: Sequence[Key]) -> None:
        """Which edges tie in the heads, in samples."""
        g = self.search.g
        names = {k: num(x) for x, k in enumerate(keys)}
        # the rank of each event is marked by who it is
        marked = {
            (i, d): (*self.heads[i], N if g.sites[i].position.loops else ZERO, names[i, d]) for i, d in keys
        }
        known: dict[Hashable, frozenset[int] | None] = {}
        for o in growing(g, marked):
            goal = o.goal.waits if isinstance(o.goal, Around) else o.goal
            assert isinstance(goal, Higher)
            if impossible(o.premises) or (o.optional and not self.requests.get(o.key, False)):
                continue
            low, high = goal.low, goal.high
            a, b = keys[low[-2].const], keys[high[-2].const]
            edge = (o.premises, low[:-2], high[:-2])
            if edge not in known:
                known[edge] = self.ahead(*edge)
            found = known[edge]
            if found is None:
                raise NotFoundError(f"ranks of sites {a[0]} and {b[0]} fall ({o.key})")
            self.ties |= dict.fromkeys((a, b, x) for x in found)

    def ahead(
        self, premises: Sequence[Term], low: Sequence[Term], high: Sequence[Term]
    ) -> frozenset[int] | None:
        """By how much n advances, -1 to 1, in samples in which the heads of two ranks tie; None where they
        fall in some sample.
        """
        out: set[int] = set()
        for e in self.search.meeting(premises, SAMPLES):
            x = [value(t, e) for t in low[:-1]]
            y = [value(t, e) for t in high[:-1]]
            if x > y:
                return None
            if x == y:
                out.add(max(-1, min(1, value(high[-1], e) - value(low[-1], e))))
        return frozenset(out)

    def group(self, key: Key) -> Hashable:
        """The stretch of code that a site stands in."""
        at = self.search.g.sites[key[0]]
        p = at.position
        if p.loops:
            return at.role, p.segment, p.inner
        return at.role, p.segment, p.inner, p.place

    def node(self, key: Key) -> Hashable:
        """Arrivals at one barrier are one."""
        s = self.search.g.sites[key[0]]
        if s.op.kind in MEETINGS:
            return s.op.ring
        return key


def components(nodes: Iterable[Hashable], edges: Iterable[tuple[Hashable, Hashable]]) -> dict[Hashable, int]:
    """The strongly connected component of each node."""
    after: dict[Hashable, list[Hashable]] = {n: [] for n in nodes}
    for a, b in edges:
        after[a].append(b)
    index: dict[Hashable, int] = {}
    low: dict[Hashable, int] = {}
    out: dict[Hashable, int] = {}
    stack: list[Hashable] = []

    def visit(v: Hashable) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in after[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w not in out:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            while True:
                w = stack.pop()
                out[w] = index[v]
                if w == v:
                    break

    for v in after:
        if v not in index:
            visit(v)
    return out


def longest(
    nodes: Iterable[Hashable], edges: Iterable[tuple[Hashable, Hashable, int]]
) -> dict[Hashable, int]:
    """The longest path to each node; NotFoundError where there is a cycle."""
    level = dict.fromkeys(nodes, 0)
    edges = list(dict.fromkeys(edges))
    for _ in range(len(level) + 1):
        changed = False
        for a, b, w in edges:
            if level[b] < level[a] + w:
                level[b] = level[a] + w
                changed = True
        if not changed:
            return level
    raise NotFoundError("operations of one step wait for each other in a circle")
