"""Forms of registers are guessed from runs: how loops nest, how turns are numbered, which form fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from syncverify.checker.induction.claims import ANY, KEPT, Claim, Form, Header
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.prover.protocols.registers import Run, Visit, _nesting, _shaped, _visited, shifted

#: Places in code: a loop over tiles, the loop in it, and registers.
TILES, STEPS = 10, 20
COUNTER, LIMIT, OTHER = 1, 2, 3
START = Visit(-1, False, {})


def visits(places: Iterable[tuple[int, bool]]) -> list[Visit]:
    return [START, *(Visit(place, back, {}) for place, back in places)]


def nested(tiles: Iterable[int]) -> Iterator[tuple[int, bool]]:
    """Visits of a loop over tiles whose inner loop asks before its body."""
    for t, steps in enumerate(tiles):
        yield TILES, t > 0
        for k in range(steps + 1):
            yield STEPS, k > 0
    yield TILES, True


def test_a_loop_inside_another_one_is_found() -> None:
    assert _nesting([Run({}, visits(nested([2, 0, 1])), True)]) == {STEPS: TILES}
    assert _nesting([Run({}, visits([(STEPS, False), (STEPS, True)]), True)]) == {}


def test_loops_three_deep_are_not_read() -> None:
    deep = [(5, False), *nested([1, 1]), (5, True), *nested([1])]
    with pytest.raises(NotReadError, match="three deep"):
        _nesting([Run({}, visits(deep), False)])


def counted(limit: int, other: Iterable[int] = (), ended: bool = True) -> Run:
    """A run of ``for i in 0..limit``; ``other`` is what a third register holds in each visit."""
    extra = [*other, *[0] * (limit + 1)]
    made = [Visit(STEPS, k > 0, {COUNTER: k, LIMIT: limit, OTHER: extra[k]}) for k in range(limit + 1)]
    return Run({"$limit": limit}, [START, *made], ended)


def claim(runs: list[Run]) -> dict[int, Form]:
    """The forms of the loop's registers where they are one for all residues."""
    found: Claim = _shaped(runs, [STEPS], ["$limit"])
    (header,) = found.headers
    assert set(header.forms) == {(r, 0) for r in range(found.steps)}
    return {slot: header.forms[0, 0][slot] for slot in (COUNTER, LIMIT, OTHER)}


LIMITS = (0, 1, 2, 5, 7, 12)


def test_a_counter_is_a_sum_and_a_size_is_kept_or_one() -> None:
    forms = claim([counted(n) for n in LIMITS])
    assert forms[COUNTER] == Form(0, (("n", 1),)) or dict(forms[COUNTER].parts).get("h") == 1
    assert forms[LIMIT] in (KEPT, Form(0, (("$limit", 1),)))
    assert forms[OTHER] == Form(0, ())


def test_what_no_sum_fits_has_no_form() -> None:
    """Squares of the counter: no sum of counters and sizes."""
    forms = claim([counted(n, (k * k * k - k for k in range(n + 1))) for n in LIMITS])
    assert forms[OTHER] is ANY or forms[OTHER].any


def test_two_turns_say_little_of_whether_a_register_moves() -> None:
    """A slot of two stays where tiles have an even number of steps; runs of others have two tiles."""
    steps = [1, 1, 3, 2, 4]  # of a tile, in each run
    runs = [Run({}, [], True) for _ in steps]
    seen = [
        (run, Visit(TILES, u > 0, {OTHER: u * k % 2}, n=u * k, u=u))
        for run, k in zip(runs, steps, strict=True)
        for u in range(2 + (k % 2 == 0))
    ]
    found = _visited(seen, (2, 1, 0), [], tiles=True, inside=False).forms(OTHER)
    assert found == {(0, 0): Form(0, ()), (1, 0): Form(1, ())}
    more = [*seen, (runs[0], Visit(TILES, True, {OTHER: 2}, n=2, u=2))]  # a third turn that goes on
    assert not _visited(more, (2, 1, 0), [], tiles=True, inside=False).repeats(OTHER)


def test_turns_and_trips_are_numbered() -> None:
    run = Run({}, visits(nested([2, 0, 1])), True)
    _shaped([run], [TILES, STEPS], [])
    inner = [v for v in run.visits if v.place == STEPS]
    assert [v.n for v in inner] == [0, 1, 2, 2, 2, 3]
    assert [v.p for v in inner] == [0, 0, 0, 2, 2, 2]
    assert [v.u for v in inner] == [0, 0, 0, 1, 2, 2]
    assert [v.trips for v in inner] == [2, 2, 2, 0, 1, 1]


def test_a_claim_of_another_warp_differs_by_one_number_at_all_residues() -> None:
    """One warp's slots are 64 bytes apart from 1000 on, another one's from 1032 on."""
    slots = {(r, 0): {OTHER: Form(1000 + 64 * r, ()), COUNTER: Form(r, (("h", 2),))} for r in range(2)}
    first = {(0, 0): {OTHER: Form(1128, ())}}
    headers = (Header(TILES, True, None, False, slots), Header(STEPS, False, TILES, False, slots, first))
    tiles, steps = shifted(Claim(2, 1, headers), STEPS, {OTHER: 32}).headers
    assert tiles == headers[0]
    assert [steps.forms[r, 0][OTHER].c for r in range(2)] == [1032, 1096]
    assert [steps.forms[r, 0][COUNTER] for r in range(2)] == [slots[r, 0][COUNTER] for r in range(2)]
    assert steps.others[0, 0][OTHER].c == 1160
