"""Kernels read as protocols from what their agents do: right ones are accepted, wrong ones are not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.induction.claims import Claim, Form
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.protocol import Kind, Loop, Protocol, Tiles, places
from syncverify.checker.open_launches import symbols
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols.readings import protocol_of
from syncverify.checker.prover.protocols.registers import Sampler
from syncverify.checker.prover.rings.by_induction import (
    NotFoundError,
    by_induction,
    protocols,
    starts,
)
from syncverify.ir.text.parser import parse
from syncverify.model.events import ThreadClass
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition as Knowledge

CORPUS = Path(__file__).parents[3] / "corpus"
RING = """kernel ring {
  launch grid [B] block [64]
  param B : i32 = 2
  param N : i32 = 5
  assume N >= 1
  tensor a : f32[N * 64] in
  tensor out : f32[B * 64] out
  shared tile : f32[3, 64] align 128
  mbarrier full[3]
  mbarrier empty[3]

  elect p
  role init warps 0..1 {
    if p {
      for s in 0..3 {
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 32
      }
    }
  }
  bar.sync 0
  role load warps 0..1 {
    if p {
      let stage = 0
      let phase = 0
      for i in 0..N {
        mbarrier.wait empty[stage], phase ^ 1
        mbarrier.arrive.expect_tx full[stage], 256
        bulk.load tile[stage], a[i * 64 : 64], full[stage]
        stage = stage + 1
        if stage == 3 {
          stage = 0
          phase = phase ^ 1
        }
      }
    }
  }
  role math warps 1..2 {
    for i in 0..N {
      mbarrier.wait full[i % 3], (i // 3) % 2
      ld.shared x, tile[i % 3][lane * 2 : 2]
      st.global out[block * 64 + lane * 2 : 2], x
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[i % 3]
    }
  }
}
"""
MISTAKES = {
    "one slot is released twice, the others not": (
        "arrive empty[i % 3]",
        "arrive empty[i % 3 * 2]",
    ),
    "the producer waits for the other parity": ("empty[stage], phase ^ 1", "empty[stage], phase"),
    "the consumer waits for the other parity": ("(i // 3) % 2", "(i // 3 + 1) % 2"),
    "no release": ("      mbarrier.arrive empty[i % 3]\n", ""),
    "no wait before the read": ("      mbarrier.wait full[i % 3], (i // 3) % 2\n", ""),
    "the next slot is released": ("arrive empty[i % 3]", "arrive empty[(i + 1) % 3]"),
    "one slot is read and another waited for": ("tile[i % 3][lane", "tile[(i + 1) % 3][lane"),
    "the ring wraps a slot early": ("if stage == 3 {", "if stage == 2 {"),
    "too few bytes": ("full[stage], 256", "full[stage], 128"),
    "one step more": (
        "for i in 0..N {\n      mbarrier.wait full",
        "for i in 0..N + 1 {\n      mbarrier.wait full",
    ),
    "a count of arrivals too small": ("empty[s], 32", "empty[s], 31"),
}


def posed(text: str) -> Problem:
    (kernel,) = parse(text, "ring.syncir")
    return problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)


def accepted(problem: Problem) -> bool:
    try:
        return bool(by_induction(problem, Policy.PRACTICAL))
    except (NotReadError, NotFoundError):
        return False


def accepted_with(text: str, old: str, new: str) -> bool:
    """Whether the kernel is accepted with one thing changed, which must be there."""
    assert old in text
    return accepted(posed(text.replace(old, new)))


def test_a_ring_is_read_and_accepted_at_every_size() -> None:
    (shown,) = by_induction(posed(RING), Policy.PRACTICAL)
    p = shown.protocol
    assert [len(r.threads) for r in p.roles] == [31, 1, 32]
    (loop,) = [part for part in p.roles[1].body if isinstance(part, Loop)]
    assert [op.kind for op in loop.body] == [Kind.WAIT, Kind.ARRIVE, Kind.COPY]
    assert {str(op.index) for op in loop.body} == {"n"} and loop.body[0].parity == 1
    assert any("full" in w and "turn" in w for w in shown.words())


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_not_accepted(what: str) -> None:
    old, new = MISTAKES[what]
    assert not accepted_with(RING, old, new)


def test_a_loop_that_may_be_empty_is_two_cases_of_the_sizes() -> None:
    found = by_induction(posed(RING.replace("  assume N >= 1\n", "")), Policy.PRACTICAL)
    loops = [any(isinstance(part, Loop) for r in s.protocol.roles for part in r.body) for s in found]
    assert sorted(loops) == [False, True]


def test_tiles_count_the_steps_of_all_tiles() -> None:
    text = RING.replace("param N", "param T : i32 = 2\n  param N").replace(
        "assume N", "assume T >= 1\n  assume N"
    )
    for head in ("for i in 0..N {\n        mbarrier.wait empty",):
        text = text.replace(head, "for t in 0..T {\n        " + head)
    text = text.replace(
        "          phase = phase ^ 1\n        }\n      }\n",
        "          phase = phase ^ 1\n        }\n      }\n      }\n",
    )
    math = text[text.index("  role math") :]
    counted = math.replace("for i in 0..N {", "let n = 0\n    for t in 0..T {\n    for i in 0..N {")
    counted = counted.replace("i % 3", "n % 3").replace("i // 3", "n // 3")
    counted = counted.replace(
        "      mbarrier.arrive empty[n % 3]\n    }\n",
        "      mbarrier.arrive empty[n % 3]\n      n = n + 1\n    }\n    }\n",
    )
    (p,) = protocols(posed(text.replace(math, counted)))
    tiles = [part for r in p.roles for part in r.body if isinstance(part, Tiles)]
    assert len(tiles) == 2 and {str(t.count) for t in tiles} == {"T"}
    assert "P(x + 1) - P(x) - N" in {str(s) for s in p.schemas}


def test_a_pair_of_the_corpus() -> None:
    name = "E01_missing_proxy_fence"
    good, bad = ((CORPUS / "rulebook" / f"{name}.{x}.syncir").read_text("utf-8") for x in ("good", "bad"))
    assert accepted(posed(good))
    assert not accepted(posed(bad))


class Changed:
    """Claims of which one number is another."""

    naming = False

    def __init__(self, inner: Sampler, rnd: random.Random) -> None:
        self.inner, self.rnd = inner, rnd
        self.before: dict[ThreadClass, Claim] = {}

    def ready(self, space: SymbolicContext, root: Knowledge, names: Mapping[int, str], seed: int) -> None:
        self.inner.ready(space, root, names, seed)

    def refine(self, split: object) -> None:
        self.inner.refine(split)  # type: ignore[arg-type]

    def adapted(self, *_: object) -> Claim | None:
        return None

    def claim(self, cls: int, of: ThreadClass) -> Claim:
        found = self.inner.claim(cls, of)
        if not found.headers:
            return found
        if self.rnd.random() < 0.3:
            return replace(found, steps=self.rnd.choice([1, 2, 3, found.steps * 2]))
        headers = list(found.headers)
        k = self.rnd.randrange(len(headers))
        h = headers[k]
        forms = {r: dict(f) for r, f in h.forms.items()}
        r = self.rnd.choice(sorted(forms))
        slot = self.rnd.choice(list(forms[r]))
        old = forms[r][slot]
        forms[r][slot] = Form(
            old.c + self.rnd.choice([-1, 1, 3]), old.parts, old.any and self.rnd.random() < 0.5
        )
        headers[k] = replace(h, forms=forms)
        return replace(found, headers=tuple(headers))


def test_a_wrong_claim_is_refused_or_makes_no_difference() -> None:
    problem = posed(RING)
    (right,) = protocols(problem)
    refused = 0
    for seed in range(40):
        space, other = SymbolicContext(), SymbolicContext()
        ((path, (system,)),) = starts(problem, space, symbols(problem, space))
        ((start, (twin,)),) = starts(problem, other, symbols(problem, other))
        claims = Changed(Sampler(other, start, twin, problem.sizes.keys()), random.Random(seed))
        try:
            found = protocol_of(space, path, system, claims).protocol
        except (NotReadError, NotConcrete):
            refused += 1
            continue
        assert _operations(found) == _operations(right)
    assert refused > 10


#: Both warps store bytes of their own; then both read those of the first one.
OWN = """kernel own {
  launch grid [B] block [64]
  param B : i32 = 2
  tensor out : f32[B * 64] out
  shared x : f32[64] align 128

  st.shared x[tid], 1.0
  bar.sync 0
  ld.shared y, x[tid % 32]
  st.global out[bid.x * 64 + tid], y
}
"""


def test_warps_that_store_to_their_own_bytes_are_one_role() -> None:
    (p,) = protocols(posed(OWN))
    assert [len(r.threads) for r in p.roles] == [64] and len(p.buffers) == 1
    assert accepted(posed(OWN))


def test_bytes_of_one_buffer_are_still_apart_by_warps() -> None:
    """Without the barrier the second warp reads what the first one may not have stored yet."""
    assert not accepted(posed(OWN.replace("  bar.sync 0\n", "")))
    assert accepted(posed(OWN.replace("  bar.sync 0\n", "").replace("tid % 32", "tid")))


def _operations(p: Protocol) -> object:
    return [(s.role, s.op, s.domain) for s in places(p)[0]], p.rings, p.buffers
