"""Grids whose blocks pass data on in small groups: one group of each kind is analysed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.checker.prover.modular.block_groups import Trace, partition, shape, traced
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.text.parser import parse
from syncverify.model.events import GLOBAL_MEMORY, Ev, Footprint, Unanalysable

HEAD = "launch grid [40] block [32]\n tensor data : f32[1 << 16] inout\n tensor flag : u32[64] inout"
#: The first of two blocks leaves data for the second one.
GIVE = "st.global data[{at} * 32 + tid : 1], 1.0\n warp.sync\n if tid == 0 {{\n {release}\n }}"
TAKE = (
    "if tid == 0 {{\n spin.global.acquire.gpu flag[{flag}] >= 1\n }}\n warp.sync\n "
    "ld.global x, data[{at} * 32 + tid : 1]"
)
RELEASE = "atom.global.add.release.gpu flag[{flag}], 1"


def pairs(at: str = "(block // 2)", flag: str = "block // 2", release: str = RELEASE, first: int = 0) -> str:
    give = GIVE.format(at=at, release=release.format(flag=flag))
    return f"if block % 2 == {first} {{\n {give}\n }} else {{\n {TAKE.format(at=at, flag=flag)}\n }}"


def kernel(body: str, head: str = HEAD) -> str:
    return f"kernel k {{\n {head}\n {body}\n}}\n"


def found(body: str, head: str = HEAD) -> list[IrSystem | Unanalysable]:
    (k,) = parse(kernel(body, head), "k.syncir")
    return list(systems(k, {}))


def checked(body: str, head: str = HEAD) -> KernelReport:
    (k,) = parse(kernel(body, head), "k.syncir")
    return check_kernel(k, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)


def first_clusters(body: str, head: str = HEAD) -> list[tuple[int, int]]:
    return [(s.cluster, s.info.clusters) for s in found(body, head) if isinstance(s, IrSystem)]


def test_pairs_of_blocks_are_alike() -> None:
    assert first_clusters(pairs()) == [(0, 2)]
    assert checked(pairs()).verdict is Verdict.PROVED


def test_an_early_release_is_a_race_in_every_pair() -> None:
    report = checked(pairs(release="atom.global.add.relaxed.gpu flag[{flag}], 1"))
    assert report.verdict is Verdict.REFUTED
    assert {d.rule for d in report.diagnostics} == {"SV110"}


def test_one_pair_that_differs_is_another_kind() -> None:
    quiet = pairs().replace("if tid == 0 {\n atom", "if tid == 0 and block != 26 {\n atom")
    assert first_clusters(quiet) == [(0, 2), (26, 2)]
    assert checked(quiet).verdict is Verdict.REFUTED


def test_one_pair_that_reads_elsewhere_is_another_kind() -> None:
    """The control is the same, and so is the shape of each access: only where they meet differs."""
    apart = pairs(at="select(block == 31, 100, block // 2)")
    assert first_clusters(apart) == [(0, 2), (30, 2)]
    assert checked(apart).verdict is Verdict.PROVED
    unordered = apart.replace("release.gpu", "relaxed.gpu")
    assert checked(unordered).verdict is Verdict.REFUTED


def test_one_pair_that_waits_for_another_flag_joins_its_owner() -> None:
    crossed = pairs().replace("flag[block // 2] >= 1", "flag[select(block == 31, 14, block // 2)] >= 1")
    assert first_clusters(crossed) == [(0, 2), (28, 4)]
    assert checked(crossed).verdict is Verdict.REFUTED


def test_teams_that_are_not_in_a_row_are_not_analysed() -> None:
    report = checked(pairs(at="block % 20", flag="block % 20").replace("block % 2 == 0", "block < 20"))
    assert report.verdict is Verdict.UNKNOWN
    assert "in a row" in (report.reason or "")


def test_data_of_one_pair_that_another_writes_too() -> None:
    overlapping = pairs(at="(block // 4)")
    assert first_clusters(overlapping) == [(0, 4)]
    assert checked(overlapping).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    "body",
    [
        pairs(flag="0"),
        "if tid == 0 {\n if block > 0 {\n spin.global.acquire.gpu flag[block - 1] >= 1\n }\n "
        "atom.global.add.release.gpu flag[block], 1\n }",
    ],
    ids=["one flag for all", "a chain through the grid"],
)
def test_teams_that_are_too_large_are_not_analysed(body: str) -> None:
    report = checked(body)
    assert report.verdict is Verdict.UNKNOWN
    assert "40 clusters" in (report.reason or "")


def test_a_pair_waits_for_the_lower_number_only() -> None:
    report = checked(pairs(first=1))
    assert report.verdict is Verdict.UNKNOWN
    assert "may not be running" in (report.reason or "")
    assert checked(pairs(first=1), HEAD.replace("[32]", "[32] cooperative")).verdict is Verdict.PROVED


def test_clusters_of_two_blocks_make_teams() -> None:
    head = HEAD.replace("[32]", "[32] cluster [2]")
    body = pairs(at="(block // 4 * 2 + rank)", flag="block // 4 * 2 + rank").replace(
        "block % 2", "(block // 2) % 2"
    )
    assert first_clusters(body, head) == [(0, 2)]
    assert checked(body, head).verdict is Verdict.PROVED


def test_a_poll_that_does_something_else_meanwhile_is_not_followed() -> None:
    head = HEAD + "\n mbarrier b[1]"
    start = (
        "if tid == 0 {\n mbarrier.init b[0], 1\n }\n bar.sync 0\n if tid == 0 {\n mbarrier.arrive b[0]\n }\n"
    )
    body = start + "let p = mbarrier.test b[0], 0\n if p == 0 {\n st.global data[60000], 1.0\n }\n" + pairs()
    (only,) = [s for s in found(body, head) if isinstance(s, Unanalysable)]
    assert "what it finds when it looks" in only.reason


class _Agent:
    """Emits what it is given, then leaves."""

    def __init__(self, *events: tuple[int, ...]) -> None:
        self.left = [*events, (Ev.EXIT, 0)]

    def step(self, answer: int = 0) -> tuple[int, ...]:
        return self.left.pop(0)


def _events(*events: tuple[int, ...]) -> object:
    info = SimpleNamespace(classes=("the only one",), footprints=())
    return traced(SimpleNamespace(info=info, agents=lambda: [_Agent(*events)])).events  # type: ignore[arg-type]


def test_clusters_whose_events_differ_in_one_number_are_not_alike() -> None:
    assert hash((1, -1)) == hash((1, -2))  # so a hash of events would not tell these apart
    earlier, later = (Ev.WAIT_TOKEN, 5, 0, -2, 0), (Ev.WAIT_TOKEN, 5, 0, -1, 0)
    assert _events(earlier) != _events(later)
    assert _events(later) == _events(later)
    assert _events(earlier, later) != _events(later, earlier)


def _trace(*places: tuple[int, int], written: bool = True) -> Trace:
    footprints = tuple(Footprint(GLOBAL_MEMORY, ((lo, hi),)) for lo, hi in places)
    return Trace((), footprints, frozenset(range(len(places))) if written else frozenset())


def test_clusters_that_only_read_the_same_bytes_are_apart() -> None:
    assert partition([_trace((0, 8), written=False), _trace((4, 12), written=False)]) == [(0,), (1,)]
    assert partition([_trace((0, 8), written=False), _trace((4, 12))]) == [(0, 1)]
    assert partition([_trace((0, 8)), _trace((8, 16))]) == [(0,), (1,)]


def test_shapes_tell_how_accesses_meet() -> None:
    meets, moved = [_trace((0, 8), (4, 12))], [_trace((100, 108), (104, 112))]
    apart, nested = [_trace((0, 8), (20, 28))], [_trace((0, 8), (0, 8))]
    assert shape(meets) == shape(moved)
    assert len({shape(meets), shape(apart), shape(nested)}) == 3
    # stretches that do not meet may lie in any order
    assert shape(apart) == shape([_trace((20, 28), (0, 8))])
    # but an access of one cluster that meets one of another does so in each
    assert shape([_trace((0, 8)), _trace((0, 8))]) != shape([_trace((0, 8)), _trace((8, 16))])


BULK = "tensor out : f32[65536] inout\n shared part : f32[128]"
STORES = (
    "if tid == 0 {{\n bulk.store out[block * 256 : 128], part\n bulk.commit\n }}\n"
    " st.global out[{at} : 1], tid\n if tid == 0 {{\n bulk.wait 0\n }}"
)


@pytest.mark.parametrize(
    ("at", "proved"),
    [
        ("128 + block * 256 + tid", True),
        ("128 + block * 128 + tid", False),  # where the first block alone does not meet its copy
        ("(block + 8) * 256 + tid", False),  # where another block's copy writes
    ],
)
def test_where_each_block_stores_is_compared(at: str, proved: bool) -> None:
    report = checked(STORES.format(at=at), f"launch grid [32] block [128]\n {BULK}")
    assert (report.verdict is Verdict.PROVED) is proved
