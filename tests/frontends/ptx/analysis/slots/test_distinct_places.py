"""Stores at ranks: what the analysis claims, and what executions on drawn words do."""

from __future__ import annotations

import random
from typing import TypeVar

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import ScopeKind
from syncverify.frontends.ptx.analysis.slots.distinct_places import Distinct, DistinctPlaces
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

_T = TypeVar("_T")
THREADS = 64
#: Where the variables lie: keys, partial sums, and the bytes that are stored at ranks.
PLACES = {"keys": 1024, "sums": 1280, "s": 1536}
START = """.shared .align 16 .b32 keys[64]; .shared .align 16 .b32 sums[64]; .shared .align 16 .b8 s[2048];
mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; and.b32 %r3, %r1, 31; shr.u32 %r6, %r1, 5;
shl.b32 %r7, %r1, 2; mov.u32 %r8, keys; add.u32 %r8, %r8, %r7; mov.u32 %r9, sums; add.u32 %r9, %r9, %r7;
mov.u32 %r4, s; setp.gt.s32 %p1, %r2, 1; selp.u32 %r5, 1, 0, %p1; st.shared.u32 [%r8], %r2; bar.sync 0;
"""
#: The rank is ``%r20``, how many there are ``%r21``; both count the own flag.
STEPS = (1, 2, 4, 8, 16, 32)
BY_BALLOT = """vote.sync.ballot.b32 %r30, %p1, -1; popc.b32 %r31, %r30; setp.eq.u32 %p4, %r3, 0;
@%p4 st.shared.u32 [sums+{first}], %r31; bar.sync 0; ld.shared.u32 %r32, [sums]; ld.shared.u32 %r33, [sums+4];
mov.u32 %r34, %lanemask_{side}; and.b32 %r35, %r30, %r34; popc.b32 %r20, %r35; setp.eq.u32 %p5, %r6, 1;
@%p5 add.u32 %r20, %r20, %r32; add.u32 %r21, %r32, %r33;
"""


def _scan(steps: tuple[int, ...] = STEPS, least: str = "ge") -> str:
    """Sums of flags in shared memory, by doubled distances."""
    text = ["st.shared.u32 [%r9], %r5; bar.sync 0;"]
    for n, d in enumerate(steps):
        text.append(f"setp.{least}.u32 %p4, %r1, {d}; mov.u32 %r30, 0; @!%p4 bra SKIP{n};")
        text.append(f"ld.shared.u32 %r30, [%r9-{4 * d}]; SKIP{n}: bar.sync 0; ld.shared.u32 %r31, [%r9];")
        text.append("add.u32 %r31, %r31, %r30; st.shared.u32 [%r9], %r31; bar.sync 0;")
    return "\n".join([*text, "ld.shared.u32 %r20, [%r9]; ld.shared.u32 %r21, [sums+252];"])


def _shuffled(steps: tuple[int, ...] = STEPS[:5]) -> str:
    """The same by exchanges in a warp; what the first warp counts goes through memory."""
    text = ["mov.u32 %r20, %r5;"]
    for d in steps:
        text.append(f"shfl.sync.up.b32 %r30|%p4, %r20, {d}, 0, -1; @%p4 add.u32 %r20, %r20, %r30;")
    text.append(
        "setp.eq.u32 %p5, %r3, 31; shl.b32 %r31, %r6, 2; mov.u32 %r32, sums; add.u32 %r31, %r31, %r32;"
    )
    text.append("@%p5 st.shared.u32 [%r31], %r20; bar.sync 0; ld.shared.u32 %r33, [sums];")
    text.append("ld.shared.u32 %r34, [sums+4]; add.u32 %r21, %r33, %r34; setp.gt.u32 %p5, %r1, 31;")
    return "\n".join([*text, "@%p5 add.u32 %r20, %r20, %r33;"])


def _compared(less: str, equal: str, aside: str, type_: str = "s32") -> str:
    """How many keys are below the own one; of equal ones those of some threads."""
    return f"""mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r30, 0;
    NEXT: shl.b32 %r31, %r30, 2; mov.u32 %r32, keys; add.u32 %r31, %r31, %r32; ld.shared.u32 %r33, [%r31];
    setp.{less}.{type_} %p4, %r33, %r2; setp.{equal}.{type_} %p5, %r33, %r2; setp.{aside}.u32 %p6, %r30, %r1;
    and.pred %p5, %p5, %p6; or.pred %p4, %p4, %p5; selp.u32 %r34, 1, 0, %p4; add.u32 %r20, %r20, %r34;
    add.u32 %r30, %r30, 1; setp.lt.u32 %p7, %r30, 64; @%p7 bra NEXT;"""


def _store(rank: str, scale: int = 1, guard: str = "", size: str = "u8") -> str:
    """Threads store at a rank and say where; others say 0."""
    return f"""{rank} mad.lo.s32 %r40, %r20, {scale}, %r4; mov.u32 %r41, 0; {guard}
    st.shared.{size} [%r40], %r1; mov.u32 %r41, %r40;
    OVER: bar.sync 0; st.global.u32 [%rd2], %r41;"""


#: The flag's side first: those with it, then the others behind them.
SPLIT = """sub.u32 %r20, %r20, {own}; sub.u32 %r42, %r1, %r20; add.u32 %r42, %r42, {total};
selp.b32 %r20, %r20, %r42, %p1;"""
WITH = "@!%p1 bra OVER;"


def _text(*parts: str) -> str:
    return kernel(START + "\n".join(parts))


def _found(text: str) -> Distinct | None:
    """What is said of the store at a rank."""
    function = parse(text).entries[0]
    places = DistinctPlaces(Flow(function), (THREADS, 1, 1), PLACES)
    at = [k for k, i in enumerate(function.body) if i.op == "st" and "shared" in i.mods][-1]
    return places.of(at)


RIGHT = [
    (_scan(), _store("add.u32 %r20, %r20, -1;", guard=WITH)),
    (_scan(), _store("", 4, WITH, "u32")),
    (_scan(), _store(SPLIT.format(own="%r5", total="%r21"))),
    (_shuffled(), _store("", guard=WITH)),
    (_shuffled(), _store(SPLIT.format(own="%r5", total="%r21"), 4, size="u32")),
    (BY_BALLOT.format(first=0, side="lt").replace("[sums+0]", "[%r50]"), _store("", guard=WITH)),
    (
        BY_BALLOT.format(first=0, side="lt")
        .replace("[sums+0]", "[%r50]")
        .replace("%r30, %r34", "%r34, %r30"),
        _store("", guard=WITH),
    ),
    (_compared("lt", "eq", "lt"), _store("")),
    (_compared("gt", "eq", "gt"), _store("")),
    (_compared("lt", "eq", "lt", "f32"), _store("", 4, size="u32")),
]
BALLOT_PLACE = "shl.b32 %r50, %r6, 2; mov.u32 %r51, sums; add.u32 %r50, %r50, %r51;"
WRONG = [
    (_scan(STEPS[:4]), _store("", guard=WITH)),
    (_scan(STEPS, "gt"), _store("", guard=WITH)),
    (_scan((1, 2, 4, 8, 16, 31)), _store("", guard=WITH)),
    (_scan(), _store("")),
    (_scan(), _store("", guard="@%p1 bra OVER;")),
    (_scan(), _store("", 2, WITH, "u32")),
    (_scan(), _store(SPLIT.format(own="0", total="%r21"))),
    (_scan(), _store(SPLIT.format(own="%r5", total="0"))),
    (_scan(), _store("and.b32 %r20, %r20, 31;", guard=WITH)),
    (_shuffled(STEPS[:4]), _store("", guard=WITH)),
    (_compared("lt", "eq", "le"), _store("and.b32 %r20, %r20, 15;")),
    (_compared("lt", "eq", "ne"), _store("")),
    (_compared("le", "eq", "lt"), _store("")),
    (_compared("lt", "ne", "lt"), _store("")),
]


@pytest.mark.parametrize("parts", RIGHT)
def test_ranks_are_distinct(parts: tuple[str, ...]) -> None:
    assert _found(_text(BALLOT_PLACE, *parts)) is not None


@pytest.mark.parametrize("parts", WRONG)
def test_other_places_may_not_be(parts: tuple[str, ...]) -> None:
    assert _found(_text(*parts)) is None


#: Places of threads, apart by the flag and the thread where ``%p2`` holds.
BY_FLAG = """selp.u32 %r40, 8, 0, %p2; mul.lo.u32 %r40, %r1, %r40; mad.lo.u32 %r41, %r5, 4, %r4;
add.u32 %r40, %r40, %r41; st.shared.u32 [%r40], %r1; st.global.u32 [%rd2+256], %r40;"""
BELOW = "setp.lt.u64 %p2, %rd5, 0x100000000;" + BY_FLAG
ALL = """mov.u32 %r20, 0; setp.gt.u32 %p3, %r1, 2; @%p3 bra DONE; setp.ne.u32 %p4, %r1, 2;
and.pred %p5, %p1, %p4; vote.sync.all.pred %p6, %p5, 7; setp.gt.u32 %p3, %r1, 1; @%p3 bra DONE;
vote.sync.all.pred %p7, %p5, 3; selp.u32 %r21, 1, 0, %p6; selp.u32 %r22, 1, 0, %p7; sub.u32 %r20, %r22, %r21;
DONE: setp.eq.u32 %p8, %r1, 0; selp.u32 %r23, {more}, 0, %p8; mul.lo.u32 %r20, %r20, %r23;
mad.lo.u32 %r40, %r5, 4, %r4; mad.lo.u32 %r40, %r1, 8, %r40; add.u32 %r40, %r40, %r20;
st.shared.u32 [%r40], %r1; st.global.u32 [%rd2+256], %r40;"""
ABOVE = """vote.sync.ballot.b32 %r20, %p1, -1; shr.{type} %r20, %r20, %r3; popc.b32 %r20, %r20;
shl.b32 %r20, %r20, 2; mad.lo.u32 %r20, %r6, 1024, %r20; add.u32 %r40, %r20, %r4;
mad.lo.u32 %r41, %r1, 4, 8192;
@%p1 st.shared.u32 [%r40], %r1; selp.u32 %r41, %r40, %r41, %p1; st.global.u32 [%rd2+256], %r41;"""
CARRIED = "mov.u64 %rd6, {base}; mad.wide.u32 %rd7, %r5, 4, %rd6; setp.lt.s64 %p2, %rd7, {below};" + BY_FLAG
UPPER = "cvt.u64.u32 %rd6, %r5; add.u64 %rd6, %rd6, 0x100000000; cvt.u32.u64 %rd5, %rd6;"
FIRST = """mov.b32 %r20, -8; {least}.s32 %r20, %r20, 3; add.u32 %r20, %r20, 8; setp.eq.u32 %p8, %r1, 0;
selp.u32 %r20, %r20, 0, %p8; mad.lo.u32 %r40, %r5, 4, %r4; mad.lo.u32 %r40, %r1, 8, %r40;
add.u32 %r40, %r40, %r20; st.shared.u32 [%r40], %r1; st.global.u32 [%rd2+256], %r40;"""
#: Right and wrong by what fills the register behind a narrow type, by its width, and by who votes.
WIDTHS = [
    ("ld.global.u32 %rd5, [%rd2];" + BELOW, "ld.global.s32 %rd5, [%rd2];" + BELOW),
    ("ld.param.u32 %rd5, [n];" + BELOW, "ld.param.s32 %rd5, [n];" + BELOW),
    (
        "ld.param.u16 %r20, [n]; setp.lt.u32 %p2, %r20, 0x10000;" + BY_FLAG,
        "ld.param.s16 %r20, [n]; setp.lt.u32 %p2, %r20, 0x10000;" + BY_FLAG,
    ),
    (ALL.format(more=0), ALL.format(more=8)),
    (ABOVE.format(type="u32"), ABOVE.format(type="s32")),
    (CARRIED.format(base="0x40000000", below="0x40000005"), CARRIED.format(base="0x80000000", below=0)),
    (
        CARRIED.format(base="0x10000000", below="0x40000005"),
        CARRIED.format(base="0x100000000", below="0x40000005"),
    ),
    (
        "selp.b32 %r20, 0x3FF00000, 1, %p1; cvt.u64.u32 %rd5, %r20;" + BELOW,
        "selp.f64 %fd1, 0d3FF0000000000000, 0d4000000000000000, %p1; mov.b64 %rd5, %fd1;" + BELOW,
    ),
    (
        "cvt.u16.u8 %rs1, %r2; cvt.u16.u8 %r20, %r2; setp.lt.u32 %p2, %r20, 0x10000;" + BY_FLAG,
        "cvt.s16.s8 %rs1, %r2; cvt.s16.s8 %r20, %r2; setp.lt.u32 %p2, %r20, 0x10000;" + BY_FLAG,
    ),
    (UPPER + BELOW, UPPER + "setp.ge.u64 %p2, %rd5, 0x100000000;" + BY_FLAG),
    (
        "sub.u32 %r20, %r5, 1; cvt.s64.s32 %rd5, %r20; setp.lt.s64 %p2, %rd5, 1;" + BY_FLAG,
        "sub.u32 %r20, %r5, 1; cvt.u32.s32 %rd5, %r20; setp.lt.s64 %p2, %rd5, 1;" + BY_FLAG,
    ),
    (
        "mov.u64 %rd5, s; cvta.shared.u64 %rd5, %rd5; cvta.to.shared.u64 %rd5, %rd5;" + BELOW,
        "mov.u64 %rd5, s; cvta.shared.u64 %rd5, %rd5;" + BELOW,
    ),
    (FIRST.format(least="min"), FIRST.format(least="min.relu")),
]


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("both", WIDTHS)
def test_what_fills_a_register(both: tuple[str, str], right: bool) -> None:
    """Words for which two threads of the wrong twin store at one place; of the right one they never do."""
    text = kernel(START + both[not right], ".param .u64 out, .param .u32 n")
    assert (_found(text) is not None) is right
    shared = []
    for word in (0, 2, 0x800000F0):
        out = buffer(np.array([word] * THREADS + [0] * THREADS, dtype=np.uint32))
        done = run(text, "k", Launch((THREADS, 1, 1), params=(out, 0x8000F000)), seed=1)
        shared.append(len({int(x) for x in done.memory(out)[THREADS:]}) < THREADS)
    assert any(shared) is not right


TAKEN = """setp.eq.u32 %p4, %r1, 0; setp.eq.u32 %p5, %r1, 63; @%p4 st.shared.u32 [sums], 4; bar.sync 0;
@%p5 st.shared.u32 [sums], 8; {give} mov.u32 %r31, 4; @!%p4 bra ALL; POLL: {poll} setp.eq.u32 %p6, %r32, 0;
@%p6 bra POLL; ld.shared.u32 %r31, [sums]; ALL: mad.lo.u32 %r40, %r5, 4, %r4; mad.lo.u32 %r40, %r1, 8, %r40;
add.u32 %r40, %r40, %r31; st.shared.u32 [%r40], %r1;"""


@pytest.mark.parametrize(
    "give, poll",
    [
        ("@%p5 st.release.gpu.global.u32 [%rd1+512], 1;", "ld.acquire.gpu.global.u32 %r32, [%rd1+512];"),
        (
            "membar.gl; @%p5 red.global.add.u32 [%rd1+512], 1;",
            "atom.global.or.b32 %r32, [%rd1+512], 0; membar.gl;",
        ),
    ],
)
def test_words_that_threads_wait_for(give: str, poll: str) -> None:
    """What is read behind a flag was written after the last barrier: nothing is said."""
    assert _found(_text(TAKEN.format(give=give, poll=poll))) is None


#: The first warp stores at its ranks and leaves, the second one behind a barrier.
LEAVES = """setp.lt.u32 %p6, %r1, 32; @!%p6 bra ON;
mad.lo.s32 %r40, %r20, 4, %r4; @%p1 st.shared.u32 [%r40], %r1; ret;
ON: bar.sync 0; mad.lo.s32 %r40, %r20, 4, %r4; @%p1 st.shared.u32 [%r40+{more}], %r1;"""


def test_no_barrier_orders_what_they_stored_who_left() -> None:
    """Places of the second warp may be those of the first, and 32 behind them."""
    here = LEAVES.format(more=128)
    assert _found(_text(_scan(), here)) is None
    stays = here.replace("ret;", "bar.sync 0; ret;")
    assert _found(_text(_scan(), stays)) is not None


def _drawn(draw: random.Random) -> str:
    """A kernel that stores at ranks, often with a mistake; it lacks no barrier."""

    def one_of(right: _T, *others: _T) -> _T:
        return right if draw.random() < 0.75 else draw.choice(others)

    match draw.randrange(4):
        case 0:
            steps = one_of(STEPS, STEPS[:-1], STEPS[1:], (1, 2, 4, 8, 16, 31), (1, 2, 3, 6, 12, 24, 48))
            ranks = _scan(steps, one_of("ge", "gt"))
        case 1:
            ranks = _shuffled(one_of(STEPS[:5], STEPS[:4], STEPS[1:5], (1, 2, 4, 8, 15)))
        case 2:
            text = BY_BALLOT.format(first=0, side=one_of("lt", "le", "gt", "ge"))
            ranks = BALLOT_PLACE + text.replace("[sums+0]", "[%r50]")
            if draw.random() < 0.5:
                ranks = ranks.replace("%r30, %r34", "%r34, %r30")
        case _:
            less, equal = one_of("lt", "le", "gt"), one_of("eq", "ne")
            aside = one_of("lt", "le", "gt", "ge")
            ranks = _compared(less, equal, aside, draw.choice(["s32", "u32", "f32"]))
    by_all = "mov.u32 %r20, 0" in ranks
    split = SPLIT.format(own=one_of("%r5", "0", "1"), total=one_of("%r21", "0", "%r20"))
    more = f"add.u32 %r20, %r20, {draw.choice([0, 1, 7])};"
    rank = one_of(more if by_all else draw.choice([split, more]), "and.b32 %r20, %r20, 31;", split)
    guard = one_of(WITH if rank == more and not by_all else "", "@%p1 bra OVER;", WITH)
    scale, size = draw.choice(
        [(1, "u8"), (4, "u32"), (4, "u8"), (8, "u32"), (1, "u8"), (2, "u16"), (3, "u8")]
    )
    return _text(ranks, _store(rank, scale, guard, size))


def _places(text: str, words: list[int], seed: int) -> tuple[bool, list[int]]:
    """Whether an execution does harm, and where each thread stored."""
    out = buffer(np.array(words, dtype=np.uint32))
    done = run(text, "k", Launch((THREADS, 1, 1), params=(out,)), seed=seed)
    return done.harm is not None, [int(x) & 0xFFFFFF for x in done.memory(out)]


@pytest.mark.parametrize("seed", range(60))
def test_places_are_apart_in_executions(seed: int) -> None:
    """The second reader's threads store inside the bounds, and no two at one place."""
    draw = random.Random(seed)
    text = _drawn(draw)
    found = _found(text)
    if found is None:
        return
    for most in (2, 3, 3, 9):
        words = [draw.randrange(most) for _ in range(THREADS)]
        harm, places = _places(text, words, seed)
        assert not harm
        stored = [x for x in places if x]
        assert len(set(stored)) == len(stored)
        assert all(found.places.low <= x <= found.places.high for x in stored)


def _verdict(text: str) -> str:
    facts = {"kernel": {"k": {"grid": [1], "block": [THREADS]}}}
    (report,) = syncverify.check(text, facts=facts, scope=ScopeKind.ALL, replay=False, advice=False)
    return str(report.verdict)


READ = "mov.u32 %r60, s; add.u32 %r60, %r60, %r1; ld.shared.u8 %r61, [%r60+1]; st.global.u32 [%rd2], %r61;"


@pytest.mark.parametrize("barrier", [True, False])
def test_who_reads_behind_a_store_at_ranks_waits(barrier: bool) -> None:
    store = _store("", guard=WITH)
    text = _text(_shuffled(), store if barrier else store.replace("OVER: bar.sync 0;", "OVER:"), READ)
    assert (_verdict(text) == "proved") is barrier


@pytest.mark.parametrize("barrier", [True, False])
@pytest.mark.parametrize("more", ["%r32", "%r3", "0"])
def test_the_first_lane_has_a_rank_that_is_a_number(barrier: bool, more: str) -> None:
    """Whatever the ballot is, nobody lies below the first lane of the first warp."""
    ranks = BALLOT_PLACE + BY_BALLOT.format(first=0, side="lt").replace("[sums+0]", "[%r50]")
    ranks = ranks.replace("add.u32 %r20, %r20, %r32", f"add.u32 %r20, %r20, {more}")
    store = _store("", guard=WITH)
    text = _text(ranks, store if barrier else store.replace("OVER: bar.sync 0;", "OVER:"), READ)
    assert (_verdict(text) == "proved") is (barrier and more == "%r32")
