"""Accesses of threads that certainly meet in global memory, beside arithmetic that shares nothing with these.

Places are drawn as sums: of numbers of blocks and threads, and of a word of the input or an answer. Two
places are one whatever the input holds if the same word stands in both and the rest is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.driver.ptx import asked_words, common_places, lost_updates
from syncverify.frontends.ptx.analysis.blocks.block_places import NOTHING
from tests.sweeps import part_of
from tests.system.small_ptx import Small, read

KERNELS = list(read(Path(__file__).parents[1].joinpath("certain_meetings.kernels")))
BLOCKS, THREADS = 3, 32
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 index, .param .u64 out, .param .u64 flag)
{{
.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<24>;
.shared .align 16 .b8 s[4096];
ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [index]; ld.param.u64 %rd3, [out]; ld.param.u64 %rd4, [flag];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
mad.lo.u32 %r3, %r0, 32, %r1; mul.wide.u32 %rd5, %r3, 4; add.u64 %rd5, %rd3, %rd5;
mov.u32 %r4, s; mad.lo.u32 %r4, %r1, 16, %r4;
{body}
END:
ret;
}}
"""
FACTS: dict[str, Any] = {"block": [THREADS], "grid": [BLOCKS], "params": {str(n): "ptr" for n in range(4)}}


def verdict(text: str, facts: Mapping[str, Any]) -> Verdict:
    (found,) = syncverify.check(text, facts={"kernel": {"k": facts}}, timeout=60, replay=False, advice=False)
    return found.verdict


def name(k: Small) -> str:
    return f"{k.group}: {k.name}"


def labelled(k: Small) -> None:
    assert (verdict(k.text, k.facts) is Verdict.PROVED) == k.right


@pytest.mark.parametrize("k", part_of(KERNELS, 3), ids=name)
def test_labelled(k: Small) -> None:
    labelled(k)


@pytest.mark.slow
@pytest.mark.parametrize("k", KERNELS, ids=name)
def test_all_labelled(k: Small) -> None:
    labelled(k)


@dataclass(frozen=True)
class Sum:
    """``a`` blocks and ``b`` threads and ``c``, without low bits."""

    a: int
    b: int
    c: int
    low: int = 0

    def of(self, block: int, thread: int) -> int:
        return (self.a * block + self.b * thread + self.c) >> self.low

    def text(self, to: str) -> str:
        return (f"mul.lo.u32 {to}, %r0, {self.a}; mad.lo.u32 {to}, %r1, {self.b}, {to};"
                f" add.u32 {to}, {to}, {self.c}; shr.u32 {to}, {to}, {self.low};\n")  # fmt: skip


SUMS = [Sum(32, 1, 0), Sum(0, 1, 0), Sum(1, 0, 0), Sum(16, 1, 0), Sum(32, 1, 0, 1), Sum(0, 1, 0, 1),
        Sum(32, 1, 64), Sum(0, 1, 32), Sum(0, 0, 5), Sum(40, 1, 3)]  # fmt: skip
EVERY = [(b, t) for b in range(BLOCKS) for t in range(THREADS)]


# Updates of words: every thread that stores has loaded.


@dataclass(frozen=True)
class Update:
    """A load, a sum and a store of one word by some threads, with a barrier before the store perhaps."""

    place: Sum
    threads: int
    block: int | None
    barrier: bool

    def text(self) -> str:
        guard = f"setp.ge.u32 %p1, %r1, {self.threads};\n"
        if self.block is not None:
            guard += f"setp.ne.u32 %p2, %r0, {self.block}; or.pred %p1, %p1, %p2;\n"
        middle = "bar.sync 0;\n" if self.barrier else ""
        return (f"{self.place.text('%r5')}mul.wide.u32 %rd6, %r5, 4; add.u64 %rd6, %rd1, %rd6;\n{guard}"
                f"@!%p1 ld.global.u32 %r6, [%rd6];\nadd.u32 %r6, %r6, 3;\n{middle}"
                f"@!%p1 st.global.u32 [%rd6], %r6;\n")  # fmt: skip

    def loses(self) -> bool:
        who = [(b, t) for b, t in EVERY if t < self.threads and self.block in (None, b)]
        pairs = ((x, y) for x in who for y in who if x < y and self.place.of(*x) == self.place.of(*y))
        return any(x[0] != y[0] or not self.barrier for x, y in pairs)


def updates(seed: int) -> Iterator[Update]:
    draw = Random(seed)
    while True:
        yield Update(draw.choice(SUMS), draw.choice([1, 2, 16, 32]), draw.choice([None, None, 0, 2]),
                     draw.random() < 0.3)  # fmt: skip


def wrongly_judged(cases: Iterator[Update], count: int) -> list[Update]:
    some = (next(cases) for _ in range(count))
    return [u for u in some if (verdict(TEXT.format(body=u.text()), FACTS) is Verdict.PROVED) == u.loses()]


def test_updates() -> None:
    assert wrongly_judged(updates(960), 25) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_updates(seed: int) -> None:
    assert wrongly_judged(updates(seed), 25) == []


def test_the_judge_of_updates_sees_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_updates, "_sure", lambda rows: False)
    assert wrongly_judged(updates(960), 25)


# Stores at places of the input: by the address of its word and the rest, which have to be equal.


@dataclass(frozen=True)
class Scatter:
    """A store of a number at ``factor`` times a word of the input, and a rest; ``through``: the word is a
    pointer of eight bytes, and the place lies behind it."""

    word: Sum
    factor: int
    rest: Sum
    value: Sum
    thread: int | None
    through: bool

    def text(self, n: int) -> str:
        skip = "" if self.thread is None else f"setp.ne.u32 %p3, %r1, {self.thread}; @%p3 bra L{n};\n"
        if self.through:
            load = (f"{self.word.text('%r5')}mul.wide.u32 %rd6, %r5, 8; add.u64 %rd6, %rd2, %rd6;\n"
                    f"ld.global.u64 %rd8, [%rd6];\n{self.rest.text('%r7')}")  # fmt: skip
        else:
            load = (f"{self.word.text('%r5')}mul.wide.u32 %rd6, %r5, 4; add.u64 %rd6, %rd2, %rd6;\n"
                    f"ld.global.u32 %r6, [%rd6]; mov.u64 %rd8, %rd1;\n{self.rest.text('%r7')}"
                    f"mad.lo.u32 %r7, %r6, {self.factor}, %r7;\n")  # fmt: skip
        return (f"{skip}{load}mul.wide.u32 %rd7, %r7, 4; add.u64 %rd7, %rd8, %rd7;\n"
                f"{self.value.text('%r8')}st.global.u32 [%rd7], %r8;\nL{n}:\n")  # fmt: skip

    def stores(self) -> Iterator[tuple[int, int, tuple[int, ...], int]]:
        """Block, thread, place and value of each store."""
        for b, t in EVERY:
            if self.thread in (None, t):
                factor = 1 if self.through else self.factor
                place = (self.word.of(b, t), factor, self.rest.of(b, t), int(self.through))
                yield b, t, place, self.value.of(b, t)


def scatters(seed: int) -> Iterator[list[Scatter]]:
    draw = Random(seed)
    words = [Sum(0, 0, 0), Sum(1, 0, 0), Sum(0, 1, 0), Sum(32, 1, 0), Sum(0, 1, 0, 1)]
    values = [Sum(0, 0, 7), Sum(0, 0, 9), Sum(1, 0, 0), Sum(0, 1, 0), Sum(32, 1, 0)]
    while True:
        shape = draw.choice([1, 1, 3]), draw.random() < 0.5
        yield [Scatter(draw.choice(words), shape[0], draw.choice([Sum(0, 0, 0), Sum(0, 0, 4), *SUMS[:6]]),
                       draw.choice(values), draw.choice([None, 0, 5]), shape[1])
               for _ in range(draw.randint(1, 2))]  # fmt: skip


def certainly_meet(some: list[Scatter]) -> tuple[bool, bool]:
    """Whether threads store different numbers to one place, whatever the input; and whether the rules ask.

    They ask for two blocks of which one thread each stores there, and for two threads of one block by one
    instruction that stores to several places, or by two instructions."""
    rows = [(n, *row) for n, s in enumerate(some) for row in s.stores()]
    at: dict[tuple[int, ...], list[tuple[int, int, int, int]]] = {}
    for n, b, t, place, value in rows:
        at.setdefault(place, []).append((n, b, t, value))
    meet = asked = False
    for group in at.values():
        many = {(n, b) for n, b, t, _ in group for m, c, u, _ in group if (n, b) == (m, c) and t != u}
        for n, b, t, v in group:
            for m, c, u, w in group:
                if v == w or (b, t) == (c, u):
                    continue
                meet = True
                alone = (n, b) not in many and (m, c) not in many
                places = len({p for i, d, _, p, _ in rows if (i, d) == (n, b)})
                asked = asked or (alone and (b != c or n != m)) or (n == m and b == c and places > 1)
    return meet, asked


def misjudged(cases: Iterator[list[Scatter]], count: int) -> list[list[Scatter]]:
    """Cases that are undecided though nothing certainly meets, or proved though the rules ask for it."""
    found = []
    for _ in range(count):
        some = next(cases)
        meet, asked = certainly_meet(some)
        proved = verdict(TEXT.format(body="".join(s.text(n) for n, s in enumerate(some))), FACTS)
        if (proved is Verdict.PROVED and asked) or (proved is not Verdict.PROVED and not meet):
            found.append(some)
    return found


def test_stores_at_places_of_inputs() -> None:
    assert misjudged(scatters(27), 30) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_stores_at_places_of_inputs(seed: int) -> None:
    assert misjudged(scatters(seed), 30) == []


def test_the_judge_of_stores_sees_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_places, "Loaded", lambda **_: NOTHING)
    assert misjudged(scatters(27), 30)


# Words that are asked once: accesses of some form by the answer, or at the place that it selects.

#: Forms of an access, with the bytes that it touches.
FORMS = {
    "ld.global.u32 %r9, [%rd7];": 4,
    "ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd7];": 16,
    "cp.async.ca.shared.global [%r4], [%rd7], 4; cp.async.wait_all;": 4,
    "cp.async.ca.shared.global [%r4], [%rd7], 8; cp.async.wait_all;": 8,
    "cp.async.cg.shared.global [%r4], [%rd7], 16; cp.async.wait_all;": 16,
    "st.global.u32 [%rd7], %r3;": 4,
    "atom.global.add.u32 %r9, [%rd7], 1;": 4,
}


@dataclass(frozen=True)
class Asked:
    """Block 0 stores words of ``written``, and an answer; others access words of ``read``, if there is one,
    or ``factor`` times the answer further."""

    written: Sum
    read: Sum
    form: str
    answer: int
    factor: int
    decides: bool

    def text(self) -> str:
        ask = "ld.relaxed.gpu.global.u32 %r6, [%rd4];\n"
        ask += "setp.eq.u32 %p3, %r6, 0; @%p3 bra END;\n" if self.decides else ""
        return (f"setp.ne.u32 %p1, %r0, 0; @%p1 bra ASK;\n{self.written.text('%r5')}"
                f"mul.wide.u32 %rd6, %r5, 4; add.u64 %rd6, %rd1, %rd6; st.global.u32 [%rd6], %r3;\n"
                f"setp.ne.u32 %p2, %r1, 0; @%p2 bra END; st.relaxed.gpu.global.u32 [%rd4], {self.answer};\n"
                f"bra END;\nASK:\n{ask}{self.read.text('%r7')}mad.lo.u32 %r7, %r6, {self.factor}, %r7;\n"
                f"mul.wide.u32 %rd7, %r7, 4; add.u64 %rd7, %rd1, %rd7; {self.form}\n")  # fmt: skip

    def meets(self) -> bool:
        written = {4 * self.written.of(0, t) + n for t in range(THREADS) for n in range(4)}
        for answer in {self.answer} if self.decides else {0, self.answer}:
            for b, t in EVERY:
                first = 4 * (self.read.of(b, t) + self.factor * answer)
                if b and not written.isdisjoint(range(first, first + FORMS[self.form])):
                    return True
        return False


def asked(seed: int) -> Iterator[Asked]:
    draw = Random(seed)
    while True:
        form = draw.choice(list(FORMS))
        unit = FORMS[form] // 4
        decides = draw.random() < 0.6
        factor = draw.choice([0, 0, 64]) if decides else draw.choice([16, 64, 128])
        read = draw.choice([Sum(32 * unit, unit, 0), Sum(32 * unit, unit, 64), Sum(0, unit, 0),
                            Sum(0, unit, 128), Sum(0, 0, 16), Sum(0, 0, 32)])  # fmt: skip
        yield Asked(draw.choice([Sum(0, 1, 0), Sum(0, 1, 64), Sum(0, 2, 1), Sum(0, 0, 16)]), read, form,
                    draw.choice([1, 1, 2]), factor, decides)  # fmt: skip


def wrongly_asked(cases: Iterator[Asked], count: int) -> list[Asked]:
    some = (next(cases) for _ in range(count))
    return [a for a in some if (verdict(TEXT.format(body=a.text()), FACTS) is Verdict.PROVED) == a.meets()]


def test_words_that_are_asked_once() -> None:
    assert wrongly_asked(asked(31), 30) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_words_that_are_asked_once(seed: int) -> None:
    assert wrongly_asked(asked(seed), 30) == []


def test_the_judge_of_asked_words_sees_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_words, "_selects", lambda program, k, asked: None)
    assert wrongly_asked(asked(31), 30)
