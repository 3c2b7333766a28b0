"""Clusters of a block group, each explored alone and then put together; relatives that must not be
proved so.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.modular.compose import (
    Access,
    ClusterSummary,
    Composition,
    FlagSignal,
    FlagTest,
    ReleasedKnowledge,
)
from syncverify.checker.prover.parametric.strategy import ParametricResult, each_cluster_alone, problem_of
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.model.proxies import Access as Kind
from syncverify.model.proxies import Scope
from tests.checker.prover.modular.test_block_groups import BAD, GOOD
from tests.checker.prover.parametric.group_programs import SEEDS, Team, kernel_of

#: What stands in one cluster only has no members.
ONE = {"clusters"}
_NONE: frozenset[int] = frozenset()

_CHAIN = """kernel chain {{
  launch grid [T * {n}] block [64]
  param T : i32
  assume T >= 1
  tensor sums : f32[T * 256 + 256] inout
  tensor flag : u32[T * 2 + 2] inout
  shared tile : f32[128]

  elect p
  let team = (block // {n})
  let place = block % {n}
  if place > 0 {{
    if warp == 0 and p {{
      spin.global.acquire.gpu flag[team] {awaited}
      fence.proxy.async.global
    }}
    bar.sync 0
  }}
  if place < {n} - 1 {{
    st.shared tile[][tid * 2 : 2], 1.0
    fence.proxy.async.shared_cta
    bar.sync 0
    if warp == 0 and p {{
      {early}
      if place == 0 {{
        bulk.store sums[team * 128 : 128], tile
      }} else {{
        bulk.reduce.add sums[team * 128 : 128], tile
      }}
      bulk.commit
      {wait}
      {signal}
    }}
  }} else {{
    ld.global y, sums[team * 128 + tid * 2 : 2]
    bar.sync 0
    if tid == 0 {{
      st.global.relaxed.gpu flag[team], {left}
    }}
  }}
}}
"""
_USUAL = {
    "n": "4",
    "awaited": ">= place",
    "early": "",
    "wait": "bulk.wait 0",
    "signal": "atom.global.add.release.gpu flag[team], 1",
    "left": "0",
}
_SIGNAL = _USUAL["signal"]
#: Each is wrong for four blocks, some for the first, a middle or the last block only.
WRONG = {
    "released before the copy": {"early": _SIGNAL, "signal": ""},
    "the source is waited for only": {"wait": "bulk.wait.read 0"},
    "no wait": {"wait": ""},
    "no release": {"signal": _SIGNAL.replace("release", "relaxed")},
    "a release of one CTA": {"signal": _SIGNAL.replace("release.gpu", "release.cta")},
    "the last waits for one less": {"awaited": ">= select(place == 3, 2, place)"},
    "a middle one does not wait": {"awaited": ">= select(place == 2, 0, place)"},
    "the second does not wait": {"awaited": ">= select(place == 1, 0, place)"},
    "the last waits for one more": {"awaited": ">= select(place == 3, 4, place)"},
    "the first adds 2": {"signal": _SIGNAL.replace(", 1", ", select(place == 0, 2, 1)")},
    "a middle one adds 2": {"signal": _SIGNAL.replace(", 1", ", select(place == 1, 2, 1)")},
    "a middle one adds nothing": {"signal": _SIGNAL.replace(", 1", ", select(place == 1, 0, 1)")},
    "the third stores": {"signal": "st.global.release.gpu flag[team], 4"},
    "the next team's flag": {"signal": _SIGNAL.replace("[team]", "[team + 1]")},
}


def _chain(**changed: str) -> Kernel:
    (kernel,) = parse(_CHAIN.format(**{**_USUAL, **changed}), "chain")
    return kernel


def _alone(kernel: Kernel) -> ParametricResult:
    return each_cluster_alone(problem_of(kernel, {}, lambda _: Verdict.UNKNOWN), Policy.PRACTICAL)


@pytest.mark.parametrize("name", sorted(GOOD.keys() - ONE))
def test_all_that_share_in_teams_are_proved_cluster_by_cluster(name: str) -> None:
    (kernel,) = parse(GOOD[name], name)
    assert _alone(kernel).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", BAD)
def test_nothing_wrong_is(name: str) -> None:
    (kernel,) = parse(BAD[name][0], name)
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    assert problem.modular_systems is None or _alone(kernel).verdict is not Verdict.PROVED


@pytest.mark.parametrize("n", range(2, 9))
def test_teams_of_any_number_of_blocks(n: int) -> None:
    found = _alone(_chain(n=str(n)))
    assert (found.verdict, found.restores) == (Verdict.PROVED, True)
    assert len(found.graphs) >= n


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_chain_of_four_is_not_proved(name: str) -> None:
    kernel = _chain(**WRONG[name])
    assert _alone(kernel).verdict is not Verdict.PROVED
    assert check_kernel(kernel, {"T": 2}).verdict is not Verdict.PROVED


def test_a_flag_that_is_left_is_not_restored() -> None:
    found = _alone(_chain(left="1"))
    assert (found.verdict, found.restores) == (Verdict.PROVED, False)


@pytest.mark.parametrize("divided", ["2", "8"])
def test_a_wrong_number_of_blocks_proves_nothing(divided: str) -> None:
    text = _CHAIN.format(**_USUAL).replace("(block // 4)", f"(block // {divided})")
    (kernel,) = parse(text, "wrong")
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    assert problem.modular_systems is None or _alone(kernel).verdict is not Verdict.PROVED


def test_teams_that_share_bytes_are_not_proved() -> None:
    text = _CHAIN.format(**_USUAL).replace("sums[team * 128", "sums[team * 127")
    (kernel,) = parse(text, "overlap")
    assert _alone(kernel).verdict is not Verdict.PROVED


class _Any(Team):
    """Random kernels of two to four blocks a block group."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sizes = (2, 3, 4)


OTHER_SEEDS = [*range(1000, 1070), *(pytest.param(s, marks=pytest.mark.slow) for s in range(1070, 1150))]


@pytest.mark.parametrize("seed", OTHER_SEEDS)
def test_what_is_proved_so_is_right(seed: int) -> None:
    (kernel,) = parse(_Any(seed).text(), f"team{seed}")
    problem = problem_of(kernel, {}, lambda _: Verdict.UNKNOWN)
    if (
        problem.modular_systems is not None
        and each_cluster_alone(problem, Policy.PRACTICAL).verdict is Verdict.PROVED
    ):
        for teams in (1, 2):
            assert check_kernel(kernel, {"T": teams}).verdict is Verdict.PROVED


def test_most_that_are_proved_together_are_proved_so() -> None:
    kernels = [kernel_of(seed) for seed in SEEDS[::2]]
    problems = [problem_of(k, {}, lambda _: Verdict.UNKNOWN) for k in kernels]
    found = [
        p
        for p in problems
        if p.modular_systems and each_cluster_alone(p, Policy.PRACTICAL).verdict is Verdict.PROVED
    ]
    assert len(found) > len(SEEDS) // 12


# ---------------------------------------------------------------- putting accounts together

_FLAG, _DATA = (0, 4), ((64, 128),)
_WRITES = Access(_DATA, Kind.GENERIC_WRITE, False, 0, _NONE, _NONE, _NONE)
_READS = replace(_WRITES, kind=Kind.GENERIC_READ, seen=frozenset({0}))
_HANDED = ReleasedKnowledge(frozenset({0}), _NONE, _NONE, _NONE, _NONE)
_TELLS = FlagSignal(_FLAG, None, 1, 1, frozenset({0}), _NONE, _HANDED)
_FIRST = ClusterSummary((_TELLS,), (_WRITES,))
_SECOND = ClusterSummary((FlagTest(_FLAG, ">=", 1),), (_READS,))


def test_a_signal_and_a_spin() -> None:
    assert Composition((_FIRST, _SECOND)).wrong() is None


def test_a_third_that_gets_all_by_the_second() -> None:
    handed = ReleasedKnowledge(_NONE, _NONE, frozenset({0}), _NONE, _NONE)
    tells = FlagSignal(_FLAG, None, 1, 1, frozenset({0, 1}), frozenset({0}), handed)
    second = ClusterSummary((*_SECOND.steps, tells), _SECOND.accesses)
    third = ClusterSummary((FlagTest(_FLAG, "==", 2),), (_READS,))
    assert Composition((_FIRST, second, third)).wrong() is None
    silent = ClusterSummary((second.steps[0], replace(tells, handed=None)), second.accesses)
    assert (
        Composition((_FIRST, silent, ClusterSummary((FlagTest(_FLAG, ">=", 2),), (_READS,)))).wrong() is None
    )
    assert (
        Composition((_FIRST, silent, ClusterSummary((FlagTest(_FLAG, ">=", 3),), (_READS,)))).wrong()
        is not None
    )


@pytest.mark.parametrize(
    "accounts",
    [
        (_SECOND, _FIRST),
        (_FIRST, replace(_SECOND, accesses=(replace(_READS, seen=_NONE),))),
        (replace(_FIRST, steps=(replace(_TELLS, handed=None),)), _SECOND),
        (replace(_FIRST, steps=(replace(_TELLS, added=2),)), _SECOND, replace(_FIRST, accesses=())),
        (replace(_FIRST, steps=(_TELLS, replace(_TELLS, before=frozenset({1})))), _SECOND),
        (_FIRST, replace(_SECOND, accesses=(replace(_READS, kind=Kind.ASYNC_READ),))),
        (_FIRST, replace(_SECOND, accesses=(replace(_READS, kind=Kind.ASYNC_WRITE),))),
        (_FIRST, replace(_SECOND, accesses=(replace(_WRITES, places=(_FLAG,)),))),
        (_FIRST, replace(_SECOND, steps=(FlagTest((0, 8), ">=", 1),))),
        (_FIRST, _SECOND, ClusterSummary((), (_WRITES,))),
    ],
)  # fmt: skip
def test_what_does_not_go_together(accounts: tuple[ClusterSummary, ...]) -> None:
    assert Composition(accounts).wrong() is not None


def test_atomics_of_one_proxy_need_no_order() -> None:
    adds = Access(_DATA, Kind.ASYNC_WRITE, True, int(Scope.GPU), _NONE, _NONE, _NONE)
    assert Composition((ClusterSummary((), (adds,)), ClusterSummary((), (adds,)))).wrong() is None
    other = replace(adds, kind=Kind.GENERIC_WRITE)
    assert Composition((ClusterSummary((), (adds,)), ClusterSummary((), (other,)))).wrong() is not None
    near = replace(adds, scope=int(Scope.CTA))
    assert Composition((ClusterSummary((), (adds,)), ClusterSummary((), (near,)))).wrong() is not None


def _some(random: Random, numbers: range) -> frozenset[int]:
    return frozenset(i for i in numbers if random.random() < 0.7)


def _random_account(random: Random) -> ClusterSummary:
    """A cluster that looks at flags and writes them, in between accesses to a few bytes."""
    flags = ((0, 4), (4, 8))
    kinds = (Kind.GENERIC_READ, Kind.GENERIC_WRITE, Kind.ASYNC_READ, Kind.ASYNC_WRITE)
    places = tuple(((8 * n, 8 * n + 8),) for n in range(1, 4))
    number = random.randint(1, 3)
    looks = range(number)  # spins are numbered among themselves
    accesses = tuple(
        Access(random.choice(places), random.choice(kinds), random.random() < 0.2, int(Scope.GPU),
               _some(random, looks), _some(random, looks), _some(random, looks))
        for _ in range(random.randint(1, 3))
    )  # fmt: skip
    of = range(len(accesses))
    handed = ReleasedKnowledge(
        _some(random, of), _some(random, of), *(_some(random, looks) for _ in range(3))
    )
    steps: list[FlagTest | FlagSignal] = [
        FlagTest(random.choice(flags), random.choice((">=", "==", "!=")), random.randint(0, 2)) for _ in looks
    ]
    for i in range(random.randint(1, 2)):
        value, added = (None, 1) if random.random() < 0.6 else (random.randint(0, 2), None)
        before = _some(random, range(number + i))
        steps.append(FlagSignal(random.choice(flags), value, added, 1, before, _some(random, looks), handed))
    return ClusterSummary(tuple(steps), accesses)


def _less(random: Random, x: ClusterSummary) -> ClusterSummary:
    """The same cluster, which knows of less."""

    def fewer(some: frozenset[int]) -> frozenset[int]:
        return frozenset(i for i in some if random.random() < 0.7)

    def handed(h: ReleasedKnowledge | None) -> ReleasedKnowledge | None:
        fields = (h.over, h.bridged, h.seen, h.fenced, h.carried) if h is not None else ()
        return None if h is None else ReleasedKnowledge(*map(fewer, fields))

    steps = tuple(
        replace(s, before=fewer(s.before), tests=fewer(s.tests), handed=handed(s.handed))
        if isinstance(s, FlagSignal) else s
        for s in x.steps
    )  # fmt: skip
    accesses = tuple(
        replace(a, seen=fewer(a.seen), fenced=fewer(a.fenced), carried=fewer(a.carried)) for a in x.accesses
    )
    return ClusterSummary(steps, accesses)


def test_who_knows_less_goes_together_with_no_more() -> None:
    # so a state may stand for one whose account says more
    random, fine = Random(7), 0
    for _ in range(30_000):
        accounts = [_random_account(random) for _ in range(2)]
        less = [_less(random, x) for x in accounts]
        if Composition(less).wrong() is None:
            fine += 1
            assert Composition(accounts).wrong() is None, (accounts, less)
    assert fine > 200
