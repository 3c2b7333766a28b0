"""For each rule of the kernel wrong protocols that it alone keeps out, with proofs made for them.

A proof is searched with the rule off, in the kernel and in the prover. Where the prover would not find it by
itself, the case names the turns and ends, or the trees. What is wrong with a protocol is judged by exploring
its interleavings (``explore.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

from syncverify.checker.kernel import hops
from syncverify.checker.kernel.accept import always
from syncverify.checker.kernel.accounting import account_kinds
from syncverify.checker.kernel.hops import Half, Program, Step, Turn
from syncverify.checker.kernel.linear import ZERO, Sum, Term, equal, num, var
from syncverify.checker.kernel.obligations import Constraints, Either, Owed, Reaches, impossible
from syncverify.checker.kernel.proof import Along, Events, Follows, Grows, Proof
from syncverify.checker.kernel.protocol import (
    N2,
    U2,
    Group,
    J,
    Kind,
    Op,
    Protocol,
    Registers,
    Ring,
    Role,
    Touch,
)
from syncverify.checker.kernel.trees import Absurd, Leaf, Residues, Split, Tree
from syncverify.checker.prover.protocols import accounts, claims, multipliers, sizes
from syncverify.checker.prover.protocols.search import Search
from syncverify.model.proxies import Access
from tests.checker.kernel.ablation import Rule
from tests.checker.kernel.families import (
    FENCE,
    STEPS,
    S,
    arrive,
    copy,
    drain,
    load,
    made,
    plain,
    send,
    store,
    told,
    wait,
)

prover = import_module("syncverify.checker.prover.protocols.prove")
rank_search = import_module("syncverify.checker.prover.protocols.rank_search")
kernel = import_module("syncverify.checker.kernel.accept")
kernel_accounting = import_module("syncverify.checker.kernel.accounting")

Claims = tuple[dict[int, Any], dict[str, Term]]
ByHand = Callable[[Protocol, Owed], Tree | None]


@dataclass(frozen=True, slots=True)
class Exposure:
    """A wrong protocol that a rule keeps out.

    ``claims``: turns and ends, where the prover finds none. ``accounts``: trees of the rings' turns.
    ``tree``: that of an obligation; None where the prover finds it.
    """

    protocol: Protocol
    claims: Claims | None = None
    accounts: Callable[[Protocol], Mapping[str, Tree]] = lambda _: {}
    tree: ByHand = lambda *_: None


def off(rule: Rule) -> Iterator[AbstractContextManager[Any]]:
    """The patches that leave a rule out, of the kernel and of the prover."""
    yield from rule.off()
    yield from (patch.object(prover, name, getattr(kernel, name)) for name in ("owed", "growing"))
    yield patch.object(rank_search, "growing", kernel.growing)


def assembled(x: Exposure) -> Proof:
    """A proof of the protocol under the rules that are in force."""
    p = x.protocol
    g = hops.Graph(p, {})
    s = Search.of(p, random.Random(1), 14, g)
    shift, end = x.claims or claims.claims(p, s.sizes, sizes.all_events(p, s.sizes))
    s.g = hops.Graph(p, shift)
    trees: dict[str, Tree] = {}
    known = x.accounts(p)
    for ring in p.rings:
        for what in account_kinds(s.g, ring):
            key = f"{what} {ring}"
            trees[key] = known.get(key) or accounts.trees(s, ring, end[ring], what)[key]
    rank = rank_search.ranks(s)
    asked = rank_search.requests(s.g)
    for each in (*prover.owed(s.g, end), *prover.growing(s.g, rank)):
        o = prover.chosen(each, asked)
        if o is not None and not impossible(o.premises):
            trees[o.key] = x.tree(p, o) or s.tree(o)
    trees |= {key: tree for key, tree in known.items() if key.startswith("registers")}
    return Proof(shift, end, rank, trees)


def exposed(rule: Rule, x: Exposure) -> tuple[Proof, Any]:
    """The proof found with the rule off, and the answer of the kernel without the rule."""
    with ExitStack() as patches:
        for each in off(rule):
            patches.enter_context(each)
        proof = assembled(x)
        return proof, kernel.accept(x.protocol, proof)


# ---------------------------------------------------------------- protocols


def straight(
    rings: dict[str, Ring], *roles: Sequence[Op], buffers: dict[str, Term] | None = None
) -> Protocol:
    """Roles of one thread without loops."""
    named = [(f"r{k}", (tuple(ops),), 1) for k, ops in enumerate(roles)]
    return made(named, rings, {"buf": num(1)} if buffers is None else buffers, "", ())  # type: ignore[arg-type]


def when(p: Protocol, *facts: Term) -> Protocol:
    """The protocol with a parameter N."""
    return replace(p, parameters=frozenset({"N"}), facts=facts)


def mbarrier(count: int = 1, depth: int = 1, initialized: bool = False) -> Ring:
    return Ring(num(depth), count, initialized=initialized)


def met(count: int = 2, barrier: str = "") -> Ring:
    return Ring(num(1), count, named=True, barrier=barrier)


B = {"b": mbarrier()}
ONE, TWO = num(1), num(2)


def versioned(op: Op, version: int) -> Op:
    return replace(op, touches=tuple(replace(t, version=version) for t in op.touches))


def sync(ring: str, index: Term = ZERO, count: int = 2) -> Op:
    return Op(Kind.SYNC, ring, index, count=count)


def join(ring: str, index: Term = ZERO, count: int = 2) -> Op:
    return Op(Kind.JOIN, ring, index, count=count)


def after_read(*more: Op) -> Protocol:
    """A read, an arrival, and a copy over what was read."""
    full = (arrive("c", ZERO, bytes=2), copy("c", ZERO, "buf"), wait("c", ZERO))
    return straight(
        {**B, "c": mbarrier()}, (load("buf", ZERO), *more, arrive("b", ZERO)), (wait("b", ZERO), *full)
    )


def deadlock() -> Protocol:
    """Each waits for what the other does next."""
    rings = {"a": mbarrier(), "b": mbarrier()}
    return straight(rings, (wait("a", ZERO), arrive("b", ZERO)), (wait("b", ZERO), arrive("a", ZERO)))


def missing_arrival() -> Protocol:
    return straight(B, (wait("b", ZERO),), (FENCE,))


def two_accesses() -> Protocol:
    return straight({}, (store("buf", ZERO),), (load("buf", ZERO),))


def pool(registers: Registers, *roles: Sequence[Op], rings: dict[str, Ring] | None = None) -> Protocol:
    return replace(straight(rings or {}, *roles), registers=registers)


def apart(p: Protocol) -> Protocol:
    """The same with each role in a warpgroup of its own."""
    return replace(p, warp=1, roles=tuple(replace(r, threads=(4 * k,)) for k, r in enumerate(p.roles)))


def registers(count: int) -> Op:
    return Op(Kind.REGISTERS, count=count)


def collective() -> Protocol:
    """One warp waits before the wgmma that the other, which it waits for, drains."""
    wgmma = Op(Kind.ASYNC, group=Group.WGMMA, label="w", touches=(Touch(Access.MMA_READ, "buf", ZERO),))
    rest = (wgmma, Op(Kind.COMMIT, group=Group.WGMMA), Op(Kind.DRAIN, count=0, group=Group.WGMMA))
    return straight(B, (wait("b", ZERO), *rest), (*rest, arrive("b", ZERO)))


class _Half(int):
    """No number of depths, though it multiplies like one half."""

    def __rmul__(self, other: int) -> int:
        return other // 2


def part_of_a_warp() -> Protocol:
    roles = (Role("x", (0,), ((sync("o"),),)), Role("y", (2,), ((sync("o"),),)))
    return Protocol(roles, {"o": met()}, {}, warp=2)


def crossed() -> Protocol:
    """Two rings stand for one barrier: r0 and r2 meet first, though r2 is taken to meet later."""
    rings = {"o": met(barrier="0"), "q": met(barrier="0")}
    return straight(
        rings, (sync("o"), load("buf", ZERO), sync("q")), (store("buf", ZERO), sync("o")), (sync("q"),)
    )


# ---------------------------------------------------------------- proofs by hand


def _site(p: Protocol, role: int, kind: Kind, which: int = 0) -> int:
    g = hops.Graph(p, {})
    return [i for i, s in enumerate(g.sites) if s.role == role and s.op.kind is kind][which]


def along(**paths: tuple[tuple[Any, int, Kind, int], ...]) -> ByHand:
    """Paths for obligations, by rule: (hop, role, kind, which of that kind). A step is left where it ends on
    an obligation's goal."""

    def tree(p: Protocol, o: Owed) -> Tree | None:
        path = paths.get(o.rule.split()[0])
        if path is None or (len(o.sites) > 1 and len(set(o.sites)) == 1):
            return None
        steps = [(how, Step(_site(p, role, kind, k), Half.OUT, ZERO, ZERO)) for how, role, kind, k in path]
        goal = o.goal.forth if isinstance(o.goal, Either) else o.goal
        assert isinstance(goal, Reaches)
        if goal.goal is not None:
            steps[-1] = (steps[-1][0], goal.goal)
        payload, scope = Along(tuple(steps)), frozenset({"u", "n", "u'", "n'"})
        premises = [*always(p), *o.premises]
        return Leaf(payload, tuple(_shown(premises, c) for c in o.goal.needs(payload, scope)))

    return tree


def _shown(premises: list[Term], goal: Term) -> Sum:
    by = multipliers.shown(premises, goal)
    assert by is not None and not by[1], f"{goal} does not follow"
    return by[0]


def anything(p: Protocol, o: Owed) -> Tree | None:
    """A name that is split on before it exists, differently in each branch."""
    if not o.rule.startswith("hazard"):
        return None
    q, many = var("%q"), len(always(p)) + len(o.premises)
    below = Residues(ZERO, "%q", (Absurd(Sum(1, ((many, 1), (many + 1, 1)))),))
    above = Residues(num(20), "%q", (Absurd(Sum(1, ((many, 1), (many + 2, 1)))),))
    return Split(q - 5, below, above)


def no_sums(_: Protocol, o: Owed) -> Tree | None:
    """Sums of nothing for the range of waits."""
    if o.rule != "means":
        return None
    assert isinstance(o.goal, Constraints)
    return Leaf(Follows(), (Sum(1, ()),) * len(o.goal.terms))


def nobody(_: Protocol) -> dict[str, Tree]:
    """Nobody comes to b, which is never touched, and that is said to be complete."""
    empty = Leaf(Events((), {}), ())
    return {"full b": empty, "open b": empty}


def first_of(ring: str, end: int = 1) -> Callable[[Protocol], dict[str, Tree]]:
    """The account of turn 0: the first site alone comes, and what the others do is not looked at."""

    def trees(p: Protocol) -> dict[str, Tree]:
        g = hops.Graph(p, {})
        first, *others = g.of(ring, (*hops.CONTRIBUTIONS, *hops.MEETINGS))
        premises = [*always(p), J, num(end) - J - 1]
        given = [*premises, *g.exists(Step(first, Half.IN, U2, N2)), *equal(g.turn(first, U2, N2), J)]
        mine = Leaf(Follows(), tuple(_shown(given, c) for c in (*equal(U2, ZERO), *equal(N2, ZERO))))
        only: dict[int, Tree] = {first: mine, **{i: Leaf(Follows(), ()) for i in others}}
        payload = Events(((first, ZERO, ZERO),), only)
        needs = kernel_accounting.Account(g, ring, (first, *others)).needs(
            payload, premises, frozenset({"j"})
        )
        return {f"full {ring}": Leaf(payload, tuple(_shown(premises, c) for c in needs))}

    return trees


# ---------------------------------------------------------------- the rules

BY_PLACE = Program(4)
OBLIGED: dict[str, tuple[Exposure, ...]] = {
    # r0 completes the first turn alone, before r1 has stored
    "O1": (
        Exposure(
            straight(
                {"b": mbarrier(2)},
                (arrive("b", ZERO), arrive("b", ONE)),
                (store("buf", ZERO), arrive("b", ZERO)),
                (wait("b", ZERO), load("buf", ZERO), arrive("b", ONE)),
            )
        ),
    ),
    # before the first arrival the parity of turn 1 has passed
    "O2": (
        Exposure(
            straight(
                B,
                (store("buf", ZERO), arrive("b", ZERO), arrive("b", ONE)),
                (wait("b", ONE), load("buf", ZERO)),
            )
        ),
    ),
    "O3": (Exposure(straight(B, (arrive("b", ZERO), arrive("b", ONE)), (wait("b", ZERO),))),),
    "O4": (
        Exposure(
            straight(
                B,
                (arrive("b", ZERO), Op(Kind.EXPECT, "b", bytes=2), copy("b", ZERO, "buf")),
                (wait("b", ZERO), load("buf", ZERO)),
            )
        ),
    ),
    "O5": (
        Exposure(straight({"b": mbarrier(initialized=True)}, (Op(Kind.INIT, "b"),), (arrive("b", ZERO),))),
        Exposure(
            straight(
                {"b": mbarrier(initialized=True), "o": met()},
                (Op(Kind.INIT, "b"), sync("o"), Op(Kind.INVAL, "b")),
                (sync("o"), arrive("b", ZERO)),
            )
        ),
    ),
    "O6": (
        Exposure(straight({}, send("buf", ZERO))),
        Exposure(straight(B, (arrive("b", ZERO, bytes=2), copy("b", ZERO, "buf")))),
    ),
    "in": (
        Exposure(straight(B, (arrive("b", ZERO), arrive("b", TWO)), (wait("b", ZERO),)), ({}, {"b": ONE})),
        Exposure(straight({"o": met()}, (sync("o"),), (FENCE,)), ({}, {"o": ZERO})),
    ),
    "means": (Exposure(missing_arrival()),),
    "slot": (
        Exposure(
            straight(
                {"b": mbarrier(initialized=True)},
                (Op(Kind.INIT, "b"), Op(Kind.INIT, "b", ONE), arrive("b", ZERO)),
            )
        ),
    ),
    "once": (
        Exposure(
            straight(
                {"b": mbarrier(initialized=True)},
                (Op(Kind.INIT, "b"), arrive("b", ZERO), Op(Kind.INVAL, "b"), Op(Kind.INVAL, "b")),
            )
        ),
    ),
    "depth": (Exposure(when(straight({}, (FENCE,), buffers={"buf": STEPS}), STEPS)),),
    "apart": (
        Exposure(
            replace(
                made([("x", ((registers(24), registers(32)),), 2)], {}, {}, "", ()),
                registers=Registers(132, 264),
                warp=1,
            )
        ),
    ),
    "hazard": (Exposure(two_accesses()),),
    # with one slot, the release of step n - 1 comes behind the wait for step n
    "rank": (Exposure(deadlock()), Exposure(replace(plain(deferred=True), facts=(S - 1, STEPS)))),
}
EXPOSURES: dict[str, tuple[Exposure, ...]] = {
    **{f"{x} is not owed": some for x, some in OBLIGED.items()},
    "sums of a turn": (Exposure(missing_arrival(), ({}, {"b": ONE}), nobody),),
    "who else lands in a turn": (
        Exposure(
            straight(B, (arrive("b", ZERO), arrive("b", ZERO)), (wait("b", ZERO),)),
            ({}, {"b": ONE}),
            first_of("b"),
        ),
    ),
    "events of a turn exist": (
        Exposure(
            when(straight(B, (arrive("b", ZERO, (STEPS - 1,)),), (wait("b", ZERO),)), STEPS),
            ({}, {"b": ONE}),
            first_of("b"),
        ),
    ),
    "all turns have accounts": (Exposure(missing_arrival(), ({}, {"b": ONE}), nobody),),
    "whole warps meet": (
        Exposure(straight({"o": met()}, (sync("o"),), (FENCE,)), ({}, {"o": ONE}), first_of("o")),
        Exposure(straight({"o": met()}, (join("o"), join("o")))),
        Exposure(part_of_a_warp()),
    ),
    "registers fit the pool": (Exposure(pool(Registers(132, 264), (registers(200),), (FENCE,))),),
    "edges of register pools": (
        Exposure(
            pool(
                Registers(132, 264),
                (wait("b", ZERO), registers(24)),
                (registers(240), arrive("b", ZERO)),
                rings=B,
            ),
            accounts=lambda _: {"registers 1 2": Leaf(Grows(0), ())},
        ),
        # each of two requests is said to come before the other one
        Exposure(
            apart(pool(Registers(100, 264), (registers(24), registers(160)), (registers(160),))),
            accounts=lambda _: {
                "registers 0 2": Leaf(Grows(0), ()),
                "registers 1 2": Leaf(Along(()), ()),
                "registers 2 1": Leaf(Along(()), ()),
            },
        ),
    ),
    # what is read between two stores is read behind both, and behind the one that it is to come before
    "versions come in order": (Exposure(told(between=1)), Exposure(told(first=6))),
    "one version is of writes alone": (
        Exposure(straight({}, (versioned(store("buf", ZERO), 2),), (versioned(load("buf", ZERO), 2),))),
    ),
    "one order at a barrier": (Exposure(crossed()),),
    # the second arrival is said to be half a depth ahead, in the other slot
    "claims are numbers and closed": (
        Exposure(
            straight({"b": mbarrier(depth=2)}, (arrive("b", ZERO),), (arrive("b", ZERO),), (wait("b", ONE),)),
            ({1: _Half(1)}, {"b": TWO}),
        ),
    ),
    "protocols are well formed": (Exposure(straight({"o": met()}, (sync("o"),), (sync("o", count=3),))),),
    "sums are checked": (Exposure(missing_arrival(), tree=no_sums),),
    "terms are in scope": (Exposure(two_accesses(), tree=anything),),
    "paths lead from all to all": (
        Exposure(made([("x", ((store("buf", ZERO),),), 2)], {}, {"buf": ONE}, "", ())),
    ),
    "bridges": (Exposure(after_read()),),
    "uses bridge where there is none": (
        Exposure(
            after_read(),
            tree=along(
                hazard=((BY_PLACE, 0, Kind.ARRIVE, 0), (Turn(), 1, Kind.WAIT, 0), (BY_PLACE, 1, Kind.COPY, 0))
            ),
        ),
    ),
    "causality": (
        Exposure(
            straight(
                B,
                (store("buf", ZERO), replace(arrive("b", ZERO), synchronizes=False)),
                (wait("b", ZERO), load("buf", ZERO)),
            )
        ),
    ),
    "program order is lexicographic": (
        Exposure(
            made(
                [
                    ("x", ((FENCE, arrive("b", ZERO)), (store("buf", ZERO),)), 1),
                    ("y", ((wait("b", ZERO), load("buf", ZERO)),), 1),
                ],
                B,
                {"buf": ONE},
                "",
                (),
            ),
            tree=along(
                hazard=(
                    (BY_PLACE, 0, Kind.ARRIVE, 0),
                    (Turn(), 1, Kind.WAIT, 0),
                    (BY_PLACE, 1, Kind.ACCESS, 0),
                )
            ),
        ),
    ),
    # without steps r1 arrives in the place of r0
    "steps of a path exist": (
        Exposure(
            when(
                straight(
                    B,
                    (store("buf", ZERO), arrive("b", ZERO, (STEPS - 1,))),
                    (arrive("b", ZERO, (-STEPS,)),),
                    (wait("b", ZERO), load("buf", ZERO)),
                ),
                STEPS,
            ),
            tree=along(
                hazard=(
                    (BY_PLACE, 0, Kind.ARRIVE, 0),
                    (Turn(), 2, Kind.WAIT, 0),
                    (BY_PLACE, 2, Kind.ACCESS, 0),
                )
            ),
        ),
    ),
    "turns of a hop agree": (
        Exposure(
            straight(
                {"b": mbarrier(depth=2)},
                (arrive("b", ZERO), store("buf", ZERO), arrive("b", ONE)),
                (wait("b", ZERO), load("buf", ZERO)),
            ),
            tree=along(
                hazard=(
                    (BY_PLACE, 0, Kind.ARRIVE, 1),
                    (Turn(), 1, Kind.WAIT, 0),
                    (BY_PLACE, 1, Kind.ACCESS, 0),
                )
            ),
        ),
    ),
    "drains leave groups pending": (
        Exposure(
            straight({}, (*send("buf", ZERO), drain(1), store("buf", ZERO))),
            tree=along(
                hazard=((hops.Drained((), ()), 0, Kind.DRAIN, 0), (BY_PLACE, 0, Kind.ACCESS, 0)),
                O6=((hops.Drained((), ()), 0, Kind.DRAIN, 0),),
            ),
        ),
    ),
    "accesses meet": (Exposure(two_accesses()),),
    "edges of drains": (Exposure(collective()),),
    "edges of turns": (Exposure(deadlock()),),
}
