"""Each place where the kernel rejects: without it alone a protocol that goes wrong has a proof, or why not.

``WRONG``: the protocol is accepted where the kernel goes on instead, and some interleaving goes wrong.
``BACKED``: the proof says nothing that is wrong, or what comes next rejects it too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel import hops
from syncverify.checker.kernel.accept import Accepted, _Kernel, accept
from syncverify.checker.kernel.hops import Drained, Half, Program, Same, Step, Turn
from syncverify.checker.kernel.linear import ZERO, RejectedError, Sum, apply, equal, num, var
from syncverify.checker.kernel.obligations import Either, Owed, impossible, owed
from syncverify.checker.kernel.proof import Along, Events, Follows, Proof, SameEvent
from syncverify.checker.kernel.protocol import (
    N2,
    U2,
    Group,
    J,
    Kind,
    Level,
    Loop,
    Op,
    Protocol,
    Registers,
    Ring,
    Role,
    Touch,
)
from syncverify.checker.kernel.trees import Absurd, Congruent, Instance, Leaf, Monotone, Residues, Split, Tree
from syncverify.checker.prover.protocols import search
from syncverify.model.proxies import Access
from tests.checker.kernel.ablation import RULES, Rule
from tests.checker.kernel.exposures import (
    EXPOSURES,
    ONE,
    TWO,
    B,
    ByHand,
    Exposure,
    _shown,
    _site,
    always,
    anything,
    crossed,
    exposed,
    join,
    mbarrier,
    met,
    missing_arrival,
    part_of_a_warp,
    pool,
    registers,
    straight,
    sync,
    two_accesses,
    when,
)
from tests.checker.kernel.families import (
    FENCE,
    STEPS,
    arrive,
    copy,
    drain,
    load,
    made,
    plain,
    send,
    store,
    wait,
)
from tests.checker.kernel.raises import off, raised_at, raises, without
from tests.checker.kernel.sweep import wrong_at

BY_PLACE = Program(4)


@dataclass(frozen=True, slots=True)
class Wrong:
    """``seen``: explorations of the protocol show the harm. They know of no relaxed barriers, no releases of
    block scope and no functions but prefix sums. ``proof``: made without a search.
    """

    exposure: Exposure | Protocol
    seen: bool = True
    proof: Callable[[Protocol], Proof] | None = None


@dataclass(frozen=True, slots=True)
class Backed:
    """``change``: what makes another proof, or another protocol too, from a right one."""

    protocol: Protocol
    change: Callable[[Protocol, Proof], Proof | tuple[Protocol, Proof]]
    because: str
    policy: Policy = Policy.PRACTICAL


def walk(rule: str, *path: tuple[Any, int, Kind, int, Half]) -> ByHand:
    """A path for obligations of a rule: (hop, role, kind, which of that kind, point)."""

    def tree(p: Protocol, o: Owed) -> Tree | None:
        if o.rule.split()[0] != rule or (len(o.sites) > 1 and len(set(o.sites)) == 1):
            return None
        steps = tuple((how, Step(_site(p, r, kind, k), half, ZERO, ZERO)) for how, r, kind, k, half in path)
        goal = o.goal.forth if isinstance(o.goal, Either) else o.goal
        wanted = getattr(goal, "goal", None)
        if wanted is not None and steps[-1][1].site == wanted.site:
            steps = (*steps[:-1], (steps[-1][0], wanted))
        payload, premises = Along(steps), [*always(p), *o.premises]
        scope = p.parameters | {"u", "n", "u'", "n'"}
        return Leaf(payload, tuple(_shown(premises, c) for c in o.goal.needs(payload, scope)))

    return tree


def owing(rule: str, tree: Callable[[Owed], Tree]) -> ByHand:
    return lambda _, o: tree(o) if o.rule.split()[0] == rule else None


def last_sum(by: Sum) -> ByHand:
    """That a wait means a turn below the end is shown by this sum."""
    return owing("means", lambda _: Leaf(Follows(), (Sum(1, ()), by)))


def events(ring: str, what: str, *found: int) -> Callable[[Protocol], dict[str, Tree]]:
    """The account of turn 0: these of the sites that land there. What the others do is looked at."""

    def trees(p: Protocol) -> dict[str, Tree]:
        g = hops.Graph(p, {})
        lands = g.of(ring, (Kind.INIT,) if what == "init" else (*hops.CONTRIBUTIONS, *hops.MEETINGS))
        premises, only, needs = [*always(p), J, -J], {}, []
        for i in dict.fromkeys(lands[k] for k in found):
            given = [*premises, *g.exists(Step(i, Half.IN, U2, N2)), *equal(g.turn(i, U2, N2), J)]
            only[i] = Leaf(Follows(), tuple(_shown(given, c) for c in (*equal(U2, ZERO), *equal(N2, ZERO))))
        for k in found:
            needs += [*g.exists(Step(lands[k], Half.IN, ZERO, ZERO)), *equal(g.turn(lands[k], ZERO, ZERO), J)]
        payload = Events(tuple((lands[k], ZERO, ZERO) for k in found), only)
        return {f"{what} {ring}": Leaf(payload, tuple(_shown(premises, c) for c in needs))}

    return trees


def wgmma(label: str) -> Op:
    return Op(Kind.ASYNC, group=Group.WGMMA, label=label, touches=(Touch(Access.MMA_READ, "buf", ZERO),))


COMMIT, WGMMAS = Op(Kind.COMMIT, group=Group.WGMMA), Op(Kind.DRAIN, group=Group.WGMMA, count=0)
INIT = Op(Kind.INIT, "b")
LIVE = {"b": mbarrier(initialized=True)}


def drained_by(commit: Kind) -> ByHand:
    """The drain is taken for one of the operation, with this in the place of the commit."""

    def tree(p: Protocol, o: Owed) -> Tree | None:
        what = o.rule.split()[0]
        if what not in ("hazard", "O6"):
            return None
        committed = Step(_site(p, 0, commit), Half.OUT, ZERO, ZERO)
        hop = (Drained((committed,), (4, 4)), 0, Kind.DRAIN, 0, Half.OUT)
        return walk(what, hop, *([(BY_PLACE, 0, Kind.ACCESS, 0, Half.IN)] if what == "hazard" else []))(p, o)

    return tree


def lanes() -> Protocol:
    """Lane 0 reads what lane 1 has stored."""
    mine, other = ((0, 4, 0), (4, 8, 1)), ((0, 4, 1), (4, 8, 0))
    ops = [replace(op, touches=(replace(op.touches[0], pieces=x),)) for op, x in
           ((store("buf", ZERO), mine), (load("buf", ZERO), other))]  # fmt: skip
    return made([("x", (tuple(ops),), 2)], {}, {"buf": ONE}, "", ())


def one_of_two_marks() -> Protocol:
    """A store where a function of which nothing is known falls."""
    p = two_accesses()
    falls = apply("G", ZERO) - apply("G", ONE) - 1
    first, second = p.roles
    guarded = replace(first, body=((replace(store("buf", ZERO), guard=(falls,)),),))
    return replace(p, roles=(guarded, second), marks=("G",))


def grown(p: Protocol) -> Proof:
    """The function never falls, it is said. The rest is as for accesses under no condition."""
    _, proof = found(EXPOSURES["hazard is not owed"][0], RULES["hazard is not owed"])
    trees = dict(proof.trees)
    rises = apply("G", ONE) - apply("G", ZERO)
    for o in owed(hops.Graph(p, {}), {}):
        if o.rule.startswith("hazard") and not impossible(o.premises):
            premises = [*always(p), *o.premises]
            both = (premises.index(-rises - 1), 1), (len(premises), 1)
            trees[o.key] = Monotone("G", ZERO, ONE, Sum(1, ()), Absurd(Sum(1, both)))
    return replace(proof, trees=trees)


def renamed(p: Protocol, o: Owed) -> Tree | None:
    """A parameter that is at least 1 is given the value 0."""
    if not o.rule.startswith("hazard"):
        return None
    many = len(always(p)) + len(o.premises)
    return Residues(ZERO, "N", (Absurd(Sum(1, ((0, 1), (many, 1)))),))


ROLES = (store("buf", ZERO), arrive("b", ZERO)), (wait("b", ZERO), load("buf", ZERO))
#: A release hands the store on to the second, none to the third.
TOLD = straight(B, ROLES[0], (wait("b", ZERO),), (FENCE, load("buf", ZERO)))
TO_OTHER = (BY_PLACE, 0, Kind.ARRIVE, 0, Half.OUT), (Turn(), 1, Kind.WAIT, 0, Half.OUT)
GUARDED = replace(registers(24), guard=(STEPS - 1,))
LOOPED = when(
    replace(
        made(
            [
                ("x", (Loop(ZERO, STEPS, (registers(24),)),), 1),
                ("y", (Loop(ZERO, ONE, (registers(240),)),), 1),
            ],
            {},
            {},
            "",
            (),
        ),
        registers=Registers(132, 264),
    ),
    STEPS,
    ONE - STEPS,
)
MANY = 2**20
WRONG: dict[str, Wrong] = {
    "accept: why": Wrong(EXPOSURES["protocols are well formed"][0]),
    "accept: a shift of no site on a ring": Wrong(EXPOSURES["claims are numbers and closed"][0]),
    "accounting: an event twice, or of another ring": Wrong(
        Exposure(
            straight({"b": mbarrier(2)}, (arrive("b", ZERO),), (wait("b", ZERO),)),
            ({}, {"b": ONE}),
            events("b", "full", 0, 0),
        )
    ),
    "accounting: a slot of {} is not initialized once": Wrong(
        Exposure(straight(LIVE, (arrive("b", ZERO),), (wait("b", ZERO),)), None, events("b", "init"))
    ),
    "accounting: a turn of {} announces more bytes than a barrier counts": Wrong(
        Exposure(
            straight(
                B,
                (arrive("b", ZERO, bytes=MANY), replace(copy("b", ZERO, "buf"), bytes=MANY)),
                (wait("b", ZERO),),
            )
        )
    ),
    "accounting: a turn of {} behind its end completes": Wrong(
        Exposure(straight(B, (arrive("b", ZERO), arrive("b", ONE)), (wait("b", ZERO),)), ({}, {"b": ONE}))
    ),
    "accounting: a turn of {} gets {}": Wrong(EXPOSURES["sums of a turn"][0]),
    "accounting: a thread comes twice to a generation of {}": Wrong(
        Exposure(
            straight({"o": met()}, (join("o"), join("o")), (sync("o"),)),
            ({}, {"o": ONE}),
            events("o", "full", 0, 1, 2),
        )
    ),
    "accounting: a part of a warp comes to {}": Wrong(Exposure(part_of_a_warp())),
    "accounting: {} threads come to a generation of {}, which waits for {}": Wrong(
        EXPOSURES["whole warps meet"][0]
    ),
    "accounting: registers change in a loop, or under a condition": Wrong(Exposure(LOOPED)),
    "accounting: {} registers may be asked for, and the block has {}": Wrong(
        EXPOSURES["registers fit the pool"][0]
    ),
    "accounting: {} is met by different roles, or in different orders": Wrong(Exposure(crossed())),
    "hops: no program order between these": Wrong(
        Exposure(
            TOLD,
            tree=walk("hazard", *TO_OTHER, (BY_PLACE, 2, Kind.ACCESS, 0, Half.IN)),
        )
    ),
    "hops: not the same event": Wrong(
        Exposure(TOLD, tree=walk("hazard", *TO_OTHER, (Same(), 2, Kind.ACCESS, 0, Half.IN)))
    ),
    "hops: no contribution to the wait's ring": Wrong(
        Exposure(
            straight(
                {**B, "c": mbarrier()},
                (store("buf", ZERO), arrive("c", ZERO)),
                ROLES[1],
                (arrive("b", ZERO),),
            ),
            tree=walk(
                "hazard",
                (BY_PLACE, 0, Kind.ARRIVE, 0, Half.OUT),
                (Turn(), 1, Kind.WAIT, 0, Half.OUT),
                (BY_PLACE, 1, Kind.ACCESS, 0, Half.IN),
            ),
        )
    ),
    "hops: the wait makes nothing of this visible": Wrong(EXPOSURES["causality"][0]),
    "hops: no arrival at the barrier that is left": Wrong(
        Exposure(
            straight(
                {"o": met(), "q": met()},
                (store("buf", ZERO), sync("o")),
                (sync("q"), load("buf", ZERO)),
                (sync("o"),),
                (sync("q"),),
            ),
            tree=walk(
                "hazard",
                (BY_PLACE, 0, Kind.SYNC, 0, Half.IN),
                (Turn(), 1, Kind.SYNC, 0, Half.OUT),
                (BY_PLACE, 1, Kind.ACCESS, 0, Half.IN),
            ),
        )
    ),
    "hops: this barrier makes nothing visible": Wrong(
        Exposure(
            straight(
                {"o": Ring(ONE, 2, named=True, visible=False)},
                (store("buf", ZERO), sync("o")),
                (sync("o"), load("buf", ZERO)),
            )
        ),
        seen=False,
    ),
    # each warp meets itself: the first hands nothing on to the second
    "hops: the roles are not of the same warps": Wrong(
        Exposure(
            straight(
                {**B, "o": Ring(ONE, 1, named=True, level=Level.WARP)},
                (store("buf", ZERO), sync("o", count=1)),
                (sync("o", count=1), arrive("b", ZERO)),
                ROLES[1],
            ),
            tree=walk(
                "hazard",
                (BY_PLACE, 0, Kind.SYNC, 0, Half.IN),
                (Turn(), 1, Kind.SYNC, 0, Half.OUT),
                (BY_PLACE, 1, Kind.ARRIVE, 0, Half.OUT),
                (Turn(), 2, Kind.WAIT, 0, Half.OUT),
                (BY_PLACE, 2, Kind.ACCESS, 0, Half.IN),
            ),
        )
    ),
    "hops: no drain of the operation's group": Wrong(
        Exposure(
            straight({}, (*send("buf", ZERO), replace(drain(0), group=Group.CP_ASYNC), store("buf", ZERO))),
            tree=drained_by(Kind.COMMIT),
        )
    ),
    "hops: no commit of the operation's group": Wrong(
        Exposure(
            straight({}, (send("buf", ZERO)[0], FENCE, drain(0), store("buf", ZERO))),
            tree=drained_by(Kind.FENCE),
        )
    ),
    "hops: another number of groups than the drain leaves pending": Wrong(
        EXPOSURES["drains leave groups pending"][0]
    ),
    "hops: a release of block scope shows another block no generic accesses": Wrong(
        Exposure(
            straight(B, (ROLES[0][0], replace(ROLES[0][1], narrow=True)), ROLES[1]),
            tree=walk("hazard", *TO_OTHER, (BY_PLACE, 1, Kind.ACCESS, 0, Half.IN)),
        ),
        seen=False,
    ),
    "hops: the path does not lead from every thread to every thread": Wrong(
        Exposure(lanes(), tree=walk("hazard", (BY_PLACE, 0, Kind.ACCESS, 1, Half.IN)))
    ),
    "hops: no proxy fence on the path": Wrong(EXPOSURES["uses bridge where there is none"][0]),
    "linear: a sum's divisor is not positive": Wrong(
        Exposure(straight(B, (FENCE,), (wait("b", TWO),)), ({}, {"b": ZERO}), tree=last_sum(Sum(-9, ())))
    ),
    "linear: a sum's multiplier is negative, or of no premise": Wrong(
        Exposure(
            replace(missing_arrival(), facts=(num(5),)), ({}, {"b": ZERO}), tree=last_sum(Sum(1, ((0, -1),)))
        )
    ),
    "linear: {} >= 0 does not follow": Wrong(EXPOSURES["sums are checked"][0]),
    "obligations: the path ends elsewhere": Wrong(Exposure(TOLD, tree=walk("hazard", *TO_OTHER))),
    # the second wait is no contribution to turn 1
    "obligations: the path ends at no event that is asked for": Wrong(
        Exposure(
            straight(B, (arrive("b", ZERO), arrive("b", ONE)), (wait("b", ZERO), wait("b", ONE))),
            tree=walk("O3", (BY_PLACE, 1, Kind.WAIT, 1, Half.IN)),
        )
    ),
    "obligations: a wait on {} names another parity than that of its turn": Wrong(
        Exposure(straight(B, ROLES[0], (wait("b", ZERO, 1), load("buf", ZERO))), ({}, {"b": ONE}))
    ),
    "obligations: {} exists from the start, and is initialized": Wrong(
        Exposure(straight(B, (INIT, arrive("b", ZERO)), (FENCE,)))
    ),
    "obligations: {}: several threads, or another count, at {}": Wrong(
        Exposure(straight(LIVE, (replace(INIT, count=2), arrive("b", ZERO), wait("b", ZERO))))
    ),
    "trees: no residue": Wrong(
        Exposure(two_accesses(), tree=owing("hazard", lambda _: Residues(ZERO, "%q", ())))
    ),
    "trees: {} has no value here": Wrong(Exposure(two_accesses(), tree=anything)),
    "trees: {} is not fresh": Wrong(Exposure(when(two_accesses(), STEPS - 1), tree=renamed)),
    "trees: {} is not known to grow": Wrong(one_of_two_marks(), seen=False, proof=grown),
}


def found(x: Exposure, rule: Rule) -> tuple[Protocol, Proof]:
    proof, answer = exposed(rule, x)
    assert isinstance(answer, Accepted), str(answer)
    return x.protocol, proof


# ---------------------------------------------------------------- what is backed


def trees(**changed: Callable[[Tree], Any]) -> Callable[[Protocol, Proof], Proof]:
    """The proof with other trees, by the beginning of their keys."""

    def change(_: Protocol, proof: Proof) -> Proof:
        def of(key: str) -> Callable[[Tree], Any]:
            return next((f for x, f in changed.items() if key.startswith(x)), lambda t: t)

        return replace(proof, trees={k: of(k)(t) for k, t in proof.trees.items()})

    return change


def leaf(change: Callable[[Leaf], Any]) -> Callable[[Tree], Any]:
    """Every leaf of a tree changed."""

    def of(t: Any) -> Any:
        if isinstance(t, Leaf):
            return change(t)
        if isinstance(t, Split):
            return replace(t, yes=of(t.yes), no=of(t.no))
        if hasattr(t, "kids"):
            return replace(t, kids=tuple(map(of, t.kids)))
        return replace(t, kid=of(t.kid)) if hasattr(t, "kid") else t

    return of


def paid(payload: Any) -> Callable[[Tree], Any]:
    return leaf(lambda x: replace(x, payload=payload))


def put(**fields: Any) -> Callable[[Protocol, Proof], Proof]:
    return lambda p, proof: replace(proof, **{x: f(p, proof) for x, f in fields.items()})


def _step(t: Leaf, change: Callable[[Any], Any]) -> Leaf:
    """The first step of a path changed."""
    if not isinstance(t.payload, Along):
        return t
    first, *rest = t.payload.path
    return replace(t, payload=replace(t.payload, path=(change(first), *rest)))


SENDING = straight(B, *ROLES)
MEET = straight({"o": met()}, (store("buf", ZERO), sync("o")), (sync("o"), load("buf", ZERO)))
SENT = straight({}, (*send("buf", ZERO), drain(0), store("buf", ZERO)))
TWINS = straight({}, (wgmma("w"), COMMIT, WGMMAS, store("buf", ZERO)))
EVENTS = "what is no list of events has none"
OTHERS = "who else lands in a turn"
NOT = "it says nothing that the obligation uses"
BACKED: dict[str, Backed] = {
    "accept: it has a tree for {}, which nobody asks for": Backed(
        plain(), lambda _, q: replace(q, trees={**q.trees, "more": Absurd(Sum(1, ()))}), "nobody looks at it"
    ),
    "accept: generations are not shifted": Backed(
        MEET,
        put(shift=lambda p, q: {_site(p, 0, Kind.SYNC): 1, _site(p, 1, Kind.SYNC): 1}),
        "who meets is what the turns say; only of several rings of one barrier the order is that of indices",
    ),
    "accept: ends of other rings": Backed(
        plain(), put(end=lambda p, q: {**q.end, "more": ZERO}), "no ring, no obligation; one without has none"
    ),
    "accept: the end {} is no function of the parameters": Backed(
        plain(), put(end=lambda p, q: {**q.end, "full": var("j")}), "no premise says anything of the name"
    ),
    "accept: there is no tree for it": Backed(
        plain(),
        lambda _, q: replace(q, trees={k: t for k, t in q.trees.items() if not k.startswith("O1")}),
        "the keys of the trees are those of the obligations",
    ),
    "accounting: the events of a turn are asked for": Backed(plain(), trees(full=paid(Follows())), EVENTS),
    "accounting: not every site is accounted for": Backed(
        plain(),
        trees(full=leaf(lambda t: replace(t, payload=replace(t.payload, only={})))),
        "a site without a tree is looked up",
    ),
    "accounting: one event more lands in the turn": Backed(
        plain(),
        lambda *_: found(EXPOSURES[OTHERS][0], RULES[OTHERS]),
        "an event that is not listed is equal to none",
    ),
    "accounting: registers are moved, but how many there are is not known": Backed(
        pool(Registers(132, 264), (registers(24),)),
        lambda p, q: (replace(p, registers=None), q),
        "the pool is looked at next",
    ),
    "accounting: {}: a count that no barrier has": Backed(
        SENDING,
        lambda p, q: (replace(p, rings={"b": mbarrier(0)}), q),
        "an open turn without arrivals is over",
    ),
    "accounting: {} is met in different ways": Backed(
        straight(
            {"o": met(barrier="0"), "q": met(barrier="0")}, (sync("o"), sync("q")), (sync("o"), sync("q"))
        ),
        lambda p, q: (replace(p, rings={**p.rings, "q": replace(p.rings["q"], level=Level.WARP)}), q),
        "who comes to each is counted apart",
    ),
    "hops: a barrier orders from its arrivals to its leaves": Backed(
        MEET,
        trees(hazard=leaf(lambda t: _step(t, lambda x: (x[0], x[1]._replace(half=Half.OUT))))),
        "between arriving and leaving a thread does nothing else",
    ),
    "hops: a drain shows completions only, and those of its own groups": Backed(
        SENT,
        trees(hazard=leaf(lambda t: _step(t, lambda x: (x[0], x[1]._replace(half=Half.IN))))),
        "between coming to a drain and leaving it a thread does nothing else",
    ),
    "hops: not the same collective instruction": Backed(
        TWINS,
        trees(hazard=leaf(lambda t: _step(t, lambda x: (replace(x[0], twin=1), x[1])))),
        "a drain of other commits",
    ),
    "hops: not the same warps": Backed(
        TWINS,
        lambda p, q: (
            replace(p, roles=tuple(map(_other_kind, p.roles))),
            trees(hazard=leaf(lambda t: _step(t, lambda x: (replace(x[0], twin=3), x[1]))))(p, q),
        ),
        "a drain of other commits",
    ),
    "hops: no such site": Backed(
        SENT,
        trees(hazard=leaf(lambda t: _step(t, lambda x: (x[0], x[1]._replace(site=99))))),
        "a list has no such place",
    ),
    "linear: no such level of an order": Backed(
        plain(),
        trees(rank=leaf(lambda t: replace(t, payload=replace(t.payload, level=9)))),
        "a rank has no such part",
    ),
    "obligations: no path is asked for": Backed(plain(), trees(means=paid(Along(()))), NOT),
    "obligations: a path is asked for": Backed(
        plain(), trees(O1=leaf(lambda t: replace(t, payload=replace(t.payload, reverse=True)))), NOT
    ),
    "obligations: no order of the two accesses": Backed(
        plain(), trees(hazard=paid(Follows())), "nothing is needed"
    ),
    "obligations: no path from a wait for the phase before": Backed(
        plain(), trees(observed=paid(Follows())), "nothing is needed", Policy.STRICT
    ),
    "ranks: a level is asked for": Backed(plain(), trees(rank=paid(SameEvent())), "it has no level"),
    "ranks: ranks of other sites, or of different lengths": Backed(
        plain(), put(rank=lambda p, q: {**q.rank, (99, False): next(iter(q.rank.values()))}), "no such site"
    ),
    "ranks: the rank {} is no function of the event": Backed(
        plain(),
        put(rank=lambda p, q: {k: (var("u'"), *r[1:]) for k, r in q.rank.items()}),
        "a name that all edges share is one number",
    ),
    "trees: {} is no function": Backed(
        plain(),
        trees(means=lambda t: Congruent("f", ZERO, ZERO, (Sum(1, ()), Sum(1, ())), t)),
        "no term may name it",
    ),
    "trees: no such schema": Backed(
        plain(), trees(means=lambda t: Instance(0, ZERO, t)), "a list has no such place"
    ),
    "trees: a leaf with sums for other needs": Backed(
        plain(), trees(means=leaf(lambda t: replace(t, by=()))), "each need has its sum"
    ),
    "trees: {} names a function that is not declared": Backed(
        plain(), trees(means=lambda t: Split(apply("f", ZERO), t, t)), "a number of which nothing is known"
    ),
}


def _other_kind(role: Role) -> Role:
    (block,) = role.body
    assert isinstance(block, tuple)
    return replace(
        role, body=(tuple(replace(op, label="w") if op.kind is Kind.ACCESS else op for op in block),)
    )


def rejecting(p: Protocol, proof: Proof, policy: Policy = Policy.PRACTICAL) -> tuple[str, int] | None:
    """Where the kernel rejects."""
    kernel = _Kernel(p, proof, policy)
    try:
        kernel.run()
    except RejectedError as e:
        return raised_at(e)
    return None


BY_NAME = {str(r): r for r in raises()}


def test_every_place_has_a_case() -> None:
    assert len(BY_NAME) == len(raises())
    assert set(WRONG) | set(BACKED) == set(BY_NAME)
    assert not set(WRONG) & set(BACKED)


@pytest.mark.parametrize("name", WRONG)
def test_a_place_alone_keeps_a_wrong_protocol_out(name: str) -> None:
    r, x = BY_NAME[name], WRONG[name]
    p, proof = (
        found(x.exposure, Rule(lambda: off(r))) if x.proof is None else (x.exposure, x.proof(x.exposure))
    )
    with without(r):
        answer = accept(p, proof)
    assert isinstance(answer, Accepted), str(answer)
    assert rejecting(p, proof) == (r.module, r.line)
    assert not x.seen or wrong_at(p, random.Random(1)) is not None


@pytest.mark.parametrize("name", BACKED)
def test_a_place_is_reached(name: str) -> None:
    r, x = BY_NAME[name], BACKED[name]
    changed = x.change(x.protocol, proof_of(x.protocol, x.policy))
    p, proof = changed if isinstance(changed, tuple) else (x.protocol, changed)
    assert rejecting(p, proof, x.policy) == (r.module, r.line)


KNOWN: list[tuple[Protocol, Policy, Proof]] = []


def proof_of(p: Protocol, policy: Policy = Policy.PRACTICAL) -> Proof:
    """One proof of each protocol."""
    known = next((proof for q, x, proof in KNOWN if (q, x) == (p, policy)), None)
    if known is None:
        known = search(p, policy)
        assert isinstance(accept(p, known, policy), Accepted)
        KNOWN.append((p, policy, known))
    return known
