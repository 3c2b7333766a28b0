"""Kernels with random mistakes, read from their events: none that a small size refutes may be accepted.

A mutant is accepted with the proof of the right kernel, where that fits, or with one that is searched.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import syncverify
from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.source import InputError
from syncverify.simulate.ptx import CannotExecute, Launch, buffer, first_harm
from syncverify.simulate.ptx.harm import Kind
from tests.checker.induction.acceptance import Answer, Ask, Known, of_ptx, of_text, refuted
from tests.checker.induction.bases import COMPILED, IR, PTX_FACTS, Base
from tests.checker.induction.mutants import OF_IR, OF_PTX, Operator, mutant

#: Seconds that one mutant may take.
SECONDS = 30
#: Mutants for which a proof of their own is searched: that is most of the work.
SEARCHED = 0.25


class LateError(Exception):
    pass


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(slots=True)
class Counts:
    """What a sweep has seen. ``mistakes``: accepted, and refuted at some small size."""

    tried: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.tried} tried, {dict(self.answers)}, {len(self.mistakes)} wrong accepted"


def of_ir(base: Base, ask: Ask) -> tuple[Callable[[str], Answer], Callable[[str], str | None]]:
    return (
        lambda text: of_text(text, base.given, ask),
        lambda text: refuted(text, base.given, ask.policy, base.sizes),
    )


def ptx_refuted(text: str, numbers: Sequence[int] = range(1, 9)) -> str | None:
    """The same of the compiled ring, by the exact check and by executions of the second reader."""
    for n in numbers:
        facts = {**PTX_FACTS, "grid": [2, 1, 1]} | {
            "params": {**PTX_FACTS["params"], "2": {"i32": 2}, "3": {"i32": n}}  # type: ignore[dict-item]
        }
        facts = {k: v for k, v in facts.items() if k != "assume"}
        try:
            (report,) = syncverify.check(
                text, facts={"kernel": {"ring": facts}}, timeout=20, replay=False, advice=False
            )
        except InputError:
            return None
        if report.verdict is Verdict.REFUTED:
            return f"N={n}: {report.diagnostics[0].rule}"
        a, out = buffer(np.zeros(n * 64, np.float32)), buffer(np.zeros(128, np.float32))
        launch = Launch(
            (64, 1, 1), (2, 1, 1), shared=816, params=(a, out, 2, n), watches=frozenset({"shared"})
        )
        try:
            harm = first_harm(text, "ring", launch, range(4))
        except (CannotExecute, ValueError):
            continue
        if harm is not None and harm.kind in (Kind.RACE, Kind.STALE, Kind.HANG):
            return f"N={n}: executed: {harm.kind}"
    return None


def swept(
    seed: int, seconds: float, bases: dict[str, Base], policy: Policy = Policy.PRACTICAL, many: int = 10**9,
    of: Sequence[Operator] = OF_IR,
) -> Counts:  # fmt: skip
    """Mutants of kernels of the IR."""
    rng, counts, begun = random.Random(seed), Counts(), time.monotonic()
    known: dict[str, Known] = {}
    while time.monotonic() - begun < seconds and counts.tried < many:
        name = rng.choice(list(bases))
        if name not in known:
            found = of_text(bases[name].text, bases[name].given, Ask(policy))
            known[name] = found.known
            assert found.accepted or policy is Policy.STRICT, f"{name}: {found}"
        text = mutant(bases[name].text, rng, of, rng.choice((1, 1, 1, 2)))
        if text is not None:
            ask = Ask(policy, known[name], rng.random() < SEARCHED)
            _judge(counts, name, text, *of_ir(bases[name], ask))
    counts.seconds = time.monotonic() - begun
    return counts


def swept_ptx(seed: int, seconds: float, many: int = 10**9) -> Counts:
    """Mutants of the compiled ring, in all the forms that compilers write it in."""
    rng, counts, begun = random.Random(seed), Counts(), time.monotonic()
    known: dict[str, Known] = {}
    while time.monotonic() - begun < seconds and counts.tried < many:
        name = rng.choice(list(COMPILED))
        base = COMPILED[name]
        if name not in known:
            found = of_ptx(base.text, PTX_FACTS)
            assert found.accepted, f"{name}: {found}"
            known[name] = found.known
        text = mutant(base.text, rng, OF_PTX)
        if text is not None:
            ask = Ask(proofs=known[name], search=rng.random() < SEARCHED)
            truth = partial(ptx_refuted, numbers=base.numbers)
            _judge(counts, name, text, partial(of_ptx, facts=PTX_FACTS, ask=ask), truth)
    counts.seconds = time.monotonic() - begun
    return counts


def _judge(
    counts: Counts, name: str, text: str, ask: Callable[[str], Answer], truth: Callable[[str], str | None]
) -> None:
    try:
        with limited(SECONDS):
            answer = ask(text)
            wrong = truth(text) if answer.accepted else None
    except LateError:
        counts.answers["late"] += 1
        counts.tried += 1
        return
    if answer.cause == "no kernel":
        return
    counts.tried += 1
    counts.answers[answer.cause or "accepted"] += 1
    if not answer.accepted:
        counts.causes[f"{answer.cause}: {answer.why}"] += 1
    if wrong is not None:
        counts.mistakes.append(f"{name}: {wrong}\n{text}")


__all__ = ["IR", "Counts", "swept", "swept_ptx"]
