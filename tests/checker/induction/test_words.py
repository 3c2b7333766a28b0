"""Words of shared memory that steer: a byte tells the second warp whether to work or to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.induction import assemble
from syncverify.checker.induction.claims import Claim
from syncverify.checker.induction.claims_text import MalformedClaimError, read
from syncverify.checker.induction.program import Claimed
from syncverify.checker.induction.refusal import NotReadError
from syncverify.checker.induction.words import Held, Steered, Stored, Version, found, version_of
from syncverify.checker.prover.protocols import registers
from syncverify.checker.prover.protocols.written import claims as write
from syncverify.model.events import Ev
from tests.checker.induction.acceptance import Answer, Ask, of_ptx

TOLD = (Path(__file__).parent / "told.ptx").read_text("utf-8")
FACTS: dict[str, Any] = {
    "grid": [1, 1, 1], "block": [64, 1, 1], "assume": ["N >= 0"],
    "params": {"0": {"i32": "N"}, "1": {"ptr": "out", "align": 16}},
}  # fmt: skip
FIRST, SECOND, MET = "\tst.shared.u8 \t[word], 7;\n", "\tst.shared.u8 \t[word], 9;\n", "\tbar.sync \t0;\n"
COPIED = (
    "\tcp.async.ca.shared.global \t[word], [%rd1], 4;\n\tcp.async.commit_group;\n\tcp.async.wait_group \t0;\n"
)
BY_LANE = "\tsetp.eq.u32 \t%p5, %r2, 0;\n\t@%p5 {0}\t@!%p5 {0}".format(FIRST.lstrip())
#: By what is wrong: edits of the kernel.
MISTAKES: dict[str, tuple[tuple[str, str], ...]] = {
    "the first store says to end": ((FIRST, FIRST.replace("7", "9")),),
    "there is no second store": ((SECOND, ""),),
    "the second store says to work again": ((SECOND, FIRST),),
    "the second store comes before the work is done": (
        ("$WORK:\n", "$WORK:\n" + SECOND),
        ("$WORKED:\n" + MET + SECOND, "$WORKED:\n" + MET),
    ),
    "the second store is made at some sizes alone": (
        (SECOND, "\tsetp.gt.s32 \t%p5, %r1, 2;\n\t@%p5 " + SECOND.lstrip()),
    ),
    "there is no first store": ((FIRST, ""),),
    "the second warp stores as well": (("$DONE:\n", "$DONE:\n" + SECOND),),
    "data are stored over the byte": ((FIRST, FIRST + "\tst.shared.u32 \t[%r5+-4], %r3;\n"),),
    "two instructions store the byte": ((FIRST, BY_LANE),),
    "lanes store different numbers": ((FIRST, "\tcvt.u16.u32 \t%rs1, %r3;\n" + FIRST.replace("7", "%rs1")),),
    "a copy writes over the byte": ((FIRST, FIRST + COPIED),),
    "the first store follows the meeting": ((FIRST + MET, MET + FIRST),),
    "the byte beside it is stored": ((SECOND, SECOND.replace("[word]", "[word+1]")),),
}
#: These work for ever, which no exact check ends to say.
ENDLESS = tuple(x for x in MISTAKES if x.startswith(("there is no", "the second store", "the byte beside")))
#: Where the byte lies, behind what is reserved.
BYTE = (0, 1024, 1)


def edited(*edits: tuple[str, str]) -> str:
    text = TOLD
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def asked(text: str, policy: Policy = Policy.PRACTICAL) -> Answer:
    return of_ptx(text, FACTS, Ask(policy))


def verdict(text: str, n: int) -> Verdict:
    facts = {**FACTS, "params": {**FACTS["params"], "0": {"i32": n}}}
    del facts["assume"]
    (report,) = syncverify.check(
        text, facts={"kernel": {"told": facts}}, timeout=20, replay=False, advice=False
    )
    return report.verdict


def test_a_byte_that_tells_what_to_do_is_read() -> None:
    answer = asked(TOLD)
    assert answer.accepted, answer
    assert verdict(TOLD, 2) is Verdict.PROVED
    versions = {t.version for p, _ in answer.known for r in p.roles for b in r.body if isinstance(b, tuple)
                for op in b for t in op.touches}  # fmt: skip
    assert versions == {None, 2, 3, 4, 5}


def test_strictly_lanes_do_not_store_one_byte() -> None:
    assert not asked(TOLD, Policy.STRICT).accepted


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[pytest.mark.slow] if x in ENDLESS else []) for x in MISTAKES]
)
def test_a_mistake_is_refused(what: str) -> None:
    text = edited(*MISTAKES[what])
    if what not in ENDLESS:
        assert Verdict.PROVED not in {verdict(text, 0), verdict(text, 1)}
    answer = asked(text)
    assert not answer.accepted and answer.cause != "no kernel", answer


# ---------------------------------------------------------------- each rule left out


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _as_listed(real: Any) -> Any:
    """A store is taken to store what is listed."""

    def attributed(self: Held, events: Any) -> Any:
        self.seen = [
            (k, s, next((w.value for w in self.words if (w.version, w.memory, w.first, w.size)
                         == (self.versions[self.at], *s)), x)) for k, s, x in self.seen
        ]  # fmt: skip
        return real(self, events)

    return attributed


def _first_of(real: Any) -> Any:
    """The words that the second warp sees are those of all."""

    def steering(self: Any, every: Any) -> None:
        mine = self.parts
        self.parts = [replace(p, words=mine[-1].words) for p in mine]
        real(self, every)
        self.parts = mine

    return steering


def stored(*values: tuple[int, int]) -> tuple[Stored, ...]:
    return tuple(Stored(v, *BYTE, x) for v, x in values)


RIGHT = stored((2, 7), (4, 9))
#: By rule: where it is, how it is left out; the wrong kernel; the words that are claimed, by warp.
OFF: dict[str, tuple[Any, str, Callable[[Any], Any], str, Callable[[int], tuple[Stored, ...]]]] = {
    "stores are as listed": (
        Held, "attributed", _as_listed, "the first store says to end", lambda _: RIGHT,
    ),
    "every store is made": (
        Steered, "check", lambda _: _nothing, "there is no second store",
        lambda _: RIGHT,
    ),
    "a word has one number": (
        Steered, "check", lambda _: _nothing, "the first store says to end",
        lambda _: stored((2, 7), (2, 9), (4, 9)),
    ),
    "all agents have the same words": (
        assemble.Assembly, "steering", _first_of, "the first store says to end",
        lambda warp: RIGHT if warp else stored((2, 9), (4, 9)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "rule", [pytest.param(x, marks=[pytest.mark.slow] if OFF[x][3] in ENDLESS else []) for x in OFF]
)
def test_a_rule_that_is_off_lets_a_wrong_kernel_in(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, off, what, words_of = OFF[rule]
    text = edited(*MISTAKES[what])
    claim = registers.Sampler.claim

    def held(self: Any, of: Any) -> Held:
        return Held(words_of(of.warp), (3, 5) if of.warp else (2, 4))

    def claimed(self: Any, i: int, of: Any) -> Claim:
        mine = held(self, of)
        return replace(claim(self, i, of), words=mine.words, versions=mine.versions)

    monkeypatch.setattr(registers.Sampler, "held", held)
    monkeypatch.setattr(registers.Sampler, "claim", claimed)
    kept_out = asked(text)
    assert not kept_out.accepted, kept_out
    monkeypatch.setattr(owner, name, off(getattr(owner, name)))
    let_in = asked(text)
    assert let_in.accepted, let_in


# ---------------------------------------------------------------- by hand


def test_what_is_found_is_what_the_last_version_left_in_each_byte() -> None:
    some = (Stored(2, 0, 4, 4, 0x04030201), Stored(4, 0, 5, 1, 0xFF))
    assert found(some, 3, (0, 4, 4)) == 0x04030201
    assert found(some, 5, (0, 4, 4)) == 0x0403FF01
    assert found(some, 5, (0, 5, 1)) == 0xFF
    assert found(some, 2, (0, 4, 1)) is None
    assert found(some, 5, (0, 4, 8)) is None
    assert found(some, 5, (1, 4, 4)) is None


def test_an_access_has_the_version_of_its_turn() -> None:
    held = Held(RIGHT, (2, 3))
    held.begin(0)
    held.store(*BYTE, 7)
    event = (Ev.WRITE, 5, 1)
    assert held.attributed((event,)) == ((*event, Version(2, frozenset({BYTE}))),)
    held.begin(1)
    assert held.load(*BYTE) == 7 and held.load(0, BYTE[1] + 8, 1) is None
    for events in ((), ((Ev.BARRIER_SYNC, 1),), ((Ev.READ, 3, 1, Version(3, frozenset())),)):
        with pytest.raises(NotReadError):
            held.attributed(events)
    held.begin(2)
    assert held.load(*BYTE) is None
    with pytest.raises(NotReadError):
        held.attributed(((Ev.READ, 3, 1),))


def test_a_version_is_that_of_all_turns_and_of_the_bytes_that_are_accessed() -> None:
    version = Version(3, frozenset({BYTE}))
    assert version_of([(Ev.READ, 1, 2), (Ev.READ, 1, 3)]) is None
    assert version_of([(Ev.READ, 1, 2, version), (Ev.READ, 1, 3, version)]) == version
    with pytest.raises(NotReadError):
        version_of([(Ev.READ, 1, 2, version), (Ev.READ, 1, 3)])
    with pytest.raises(NotReadError):
        Steered(RIGHT).read({(0, BYTE[1] + 1)}, version)


def test_a_store_is_one_of_its_version_and_known() -> None:
    steered, byte = Steered(RIGHT), Version(2, frozenset({BYTE}))
    steered.write({BYTE[:2]}, byte, 0, always=True)
    for version, site in ((None, 0), (byte, 1), (Version(2, frozenset()), 0)):
        with pytest.raises(NotReadError):
            steered.write({BYTE[:2]}, version, site, always=True)


def test_no_version_is_both_stored_and_read() -> None:
    steered = Steered(stored((2, 7)))
    steered.write({BYTE[:2]}, Version(2, frozenset({BYTE})), 0, always=True)
    steered.check()
    steered.read({BYTE[:2]}, Version(2, frozenset({BYTE})))
    with pytest.raises(NotReadError):
        steered.check()


def test_words_stand_in_claims() -> None:
    claimed = Claimed((Claim(1, 1, (), RIGHT, (3, 5)), Claim(1, 1, ())))
    assert read(write(claimed)) == claimed
    data = write(Claimed((Claim(1, 1, (), (Stored(2, 0, 8, 0, 7),), ()),)))
    with pytest.raises(MalformedClaimError):
        read(data)
