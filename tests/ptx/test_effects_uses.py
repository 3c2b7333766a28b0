"""Values that are first used after their buffer was handed on."""

from __future__ import annotations

from syncverify.frontends.ptx.effect_uses import late_uses
from syncverify.frontends.ptx.flow import Flow
from tests.ptx.effect_helpers import function

LOAD = "ld.shared.b32 %r1, [%a]"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%b]"
USE = "add.u32 %r2, %r1, 1"


def uses(*lines: str) -> tuple[list[str], dict[str, int]]:
    """Lines of late loads, and how many of them each line is the first to use."""
    f = function(*lines)
    loads = [k for k, i in enumerate(f.body) if i.op == "ld"]
    found = late_uses(Flow(f), loads)
    text = [line for line in lines if not line.endswith(":")]
    return [text[k] for k in sorted(found.late)], {text[k]: len(v) for k, v in found.at.items()}


def test_used_before_the_hand_over() -> None:
    assert uses(LOAD, USE, ARRIVE) == ([], {})


def test_used_after_it() -> None:
    assert uses(LOAD, ARRIVE, USE) == ([LOAD], {USE: 1})


def test_a_copy_is_no_use() -> None:
    later = "add.u32 %r2, %r3, 1"
    assert uses(LOAD, "mov.b32 %r3, %r1", ARRIVE, later) == ([LOAD], {later: 1})


def test_waits_hand_nothing_on() -> None:
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%b], 0"
    assert uses(LOAD, wait, USE) == ([], {})


def test_only_the_first_use_counts() -> None:
    assert uses(LOAD, ARRIVE, USE, "add.u32 %r4, %r1, 2") == ([LOAD], {USE: 1})


def test_dead_on_the_path_that_hands_on() -> None:
    assert uses(LOAD, "@%p1 bra OUT", USE, "bra END", "OUT:", ARRIVE, "END:") == ([], {})


def test_each_path_has_a_first_use() -> None:
    other = "add.u32 %r4, %r1, 2"
    late, at = uses(LOAD, ARRIVE, "@%p1 bra OUT", USE, "bra END", "OUT:", other, "END:")
    assert late == [LOAD]
    assert at == {USE: 1, other: 1}


def test_around_a_loop() -> None:
    late, at = uses("LOOP:", "add.u32 %r2, %r1, 1", LOAD, ARRIVE, "@%p1 bra LOOP")
    assert (late, at) == ([LOAD], {USE: 1})


def test_a_value_overtaken_by_its_own_load_is_never_used() -> None:
    late, at = uses("LOOP:", LOAD, "add.u32 %r2, %r3, 1", "mov.b32 %r3, %r1", ARRIVE, "@%p1 bra LOOP")
    assert (late, at) == ([LOAD], {})


def test_an_arrival_that_takes_the_value_uses_it() -> None:
    assert uses(LOAD, "mbarrier.arrive.shared::cta.b64 _, [%b], %r1") == ([], {})


def test_bulk_copies_hand_on() -> None:
    copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%a], [%d1], 16, [%b]"
    assert uses(LOAD, copy, USE)[0] == [LOAD]
    assert uses(LOAD, "cp.async.bulk.commit_group", USE)[0] == []
