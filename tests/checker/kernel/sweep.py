"""Protocols with mistakes, against exhaustive exploration: nothing wrong may be accepted.

``reproved``: each mutant is proved again. ``transplanted``: the proof of the right protocol is handed in for
the mutant, at times with other turns. ``corrupted``: a proof with one datum changed, for its own protocol
or for a mutant. ``planted``: protocols that are wrong by one rule alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from syncverify.checker.kernel.accept import Accepted, accept
from syncverify.checker.kernel.proof import Proof, UnreadableError, read
from syncverify.checker.kernel.protocol import Protocol
from syncverify.checker.prover.protocols import NotFoundError, prove, search
from tests.checker.kernel.ablation import RULES
from tests.checker.kernel.explore import explore
from tests.checker.kernel.exposures import EXPOSURES, exposed
from tests.checker.kernel.families import FAMILIES
from tests.checker.kernel.mutants import Text, corrupted, mutated, shifted
from tests.checker.kernel.programs import pick, program, shown

#: Samples that are tried until a proof is found: tiles need some luck.
SEEDS = (1, 2, 3, 4, 5, 6)
Accept = Callable[[Protocol, Proof], bool]
#: Its proof has a shift that no text can name.
_NOT_WRITTEN = ("claims are numbers and closed",)


def kernel(p: Protocol, proof: Proof) -> bool:
    return isinstance(accept(p, proof), Accepted)


def wrong_at(
    p: Protocol, rnd: random.Random, many: int = 40, states: int = 6_000, *, observes: bool = False
) -> tuple[str, str] | None:
    """A small size at which some interleaving goes wrong, and how. ``observes``: see ``explore.Machine``."""
    for e in pick(p, rnd, many):
        found = program(p, e)
        if found is None:
            return shown(e), "a depth below 1"
        if sum(map(len, found.threads)) > 80:
            continue
        why = explore(found, states, observes=observes).wrong
        if why is not None:
            return shown(e), why
    return None


@dataclass(slots=True)
class Counts:
    """What a sweep has seen. ``wrong``: refuted by some size. ``mistakes``: accepted although wrong."""

    tried: int = 0
    wrong: int = 0
    accepted: int = 0
    mistakes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # right as far as was looked, and not accepted

    def __str__(self) -> str:
        refuted = f", {self.wrong} of them refuted" if self.wrong else ""
        explored = f"{self.accepted} accepted and explored"
        return f"{self.tried} tried{refuted}, {explored}, {len(self.mistakes)} wrong accepted"


def _until(seconds: float, many: int) -> Callable[[Counts], bool]:
    end = time.monotonic() + seconds
    return lambda c: c.tried < many and time.monotonic() < end


def reproved(seed: int, many: int, seconds: float = 1e9, families: list[str] | None = None) -> Counts:
    r, c = random.Random(seed), Counts()
    more = _until(seconds, many)
    while more(c):
        name = r.choice(families or list(FAMILIES))
        p, what = mutated(r, FAMILIES[name](), r.choice((1, 1, 1, 2, 2, 3)))
        if not what:
            continue
        c.tried += 1
        refusal = ""
        try:
            ok = kernel(p, search(p, seed=r.randrange(99), many=8))
        except NotFoundError as e:
            ok, refusal = False, str(e)
        wrong = wrong_at(p, r) if ok else wrong_at(p, r, 12, 1_500)
        c.wrong += wrong is not None
        c.accepted += ok
        if ok and wrong:
            c.mistakes.append(f"{name}: {what}: {wrong}")
        if not ok and not wrong:
            c.refused.append(f"{name}: {what}: {refusal}")
    return c


def proofs(families: list[str]) -> dict[str, tuple[Protocol, Proof]]:
    """One proof of each family."""
    out: dict[str, tuple[Protocol, Proof]] = {}
    for name in families:
        p = FAMILIES[name]()
        out[name] = (p, prove(p, seeds=SEEDS).proof)
    return out


def transplanted(
    seed: int, many: int, good: dict[str, tuple[Protocol, Proof]], seconds: float = 1e9, ok: Accept = kernel,
    until: int = 10**9,
) -> Counts:  # fmt: skip
    """A proof of the right protocol, handed in for a mutant."""
    r, c = random.Random(seed), Counts()
    more = _until(seconds, many)
    while more(c) and len(c.mistakes) < until:
        name = r.choice(list(good))
        p, proof = good[name]
        p, what = mutated(r, p, r.choice((1, 1, 2)), keep=True)
        if not what:
            continue
        c.tried += 1
        if ok(p, shifted(r, p, proof)):
            c.accepted += 1
            wrong = wrong_at(p, r)
            c.wrong += wrong is not None
            if wrong:
                c.mistakes.append(f"{name}: {what}: {wrong}")
    return c


def corruptions(
    seed: int, many: int, good: dict[str, tuple[Protocol, Proof]], seconds: float = 1e9, ok: Accept = kernel,
    until: int = 10**9,
) -> Counts:  # fmt: skip
    """A proof with one datum changed, half of the time for a mutant."""
    r, c = random.Random(seed), Counts()
    texts = {name: Text.of(proof) for name, (_, proof) in good.items()}
    more = _until(seconds, many)
    while more(c) and len(c.mistakes) < until:
        name = r.choice(list(good))
        p, _ = good[name]
        what: list[str] = []
        if r.random() < 0.5:
            p, what = mutated(r, p, 1, keep=True)
        data, how = corrupted(r, texts[name])
        c.tried += 1
        try:
            again = read(data)
        except UnreadableError:
            continue
        if ok(p, again):
            c.accepted += 1
            wrong = wrong_at(p, r) if what else None
            c.wrong += wrong is not None
            if wrong:
                c.mistakes.append(f"{name}: {what}: {how}: {wrong}")
    return c


def planted(seed: int, many: int, seconds: float = 1e9, ok: Accept = kernel, until: int = 10**9) -> Counts:
    """A protocol that one rule keeps out, with the proof that passes without it, often changed a little."""
    r, c = random.Random(seed), Counts()
    wrong = [(rule, x.protocol, exposed(RULES[rule], x)[0]) for rule, some in EXPOSURES.items() for x in some]
    known = [(rule, p, proof, None if rule in _NOT_WRITTEN else Text.of(proof)) for rule, p, proof in wrong]
    more = _until(seconds, many)
    while more(c) and len(c.mistakes) < until:
        rule, p, proof, text = r.choice(known)
        c.tried += 1
        how, again = "as it is", proof
        if r.random() < 0.5:
            again = shifted(r, p, proof)
        elif text is not None and r.random() < 0.9:
            data, how = corrupted(r, text)
            try:
                again = read(data)
            except UnreadableError:
                continue
        if ok(p, again):
            c.accepted += 1
            c.wrong += 1
            c.mistakes.append(f"{rule}: {how}")
    return c
