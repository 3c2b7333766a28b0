"""A certificate proves its kernel and no other, and no field of it can be changed to prove a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from syncverify.base.source import InputError
from syncverify.checker.prover.rings import prove_stages, validate
from syncverify.checker.prover.rings.agents import Program, extract
from syncverify.checker.prover.rings.certificate import from_dict
from syncverify.checker.prover.rings.linear import Facts
from syncverify.checker.prover.rings.validate import Cases, flaw
from syncverify.ir.text.parser import parse
from tests.checker.prover.rings.kernels import GOOD

(RING,) = parse(GOOD["ring"], "ring.syncir")


@cache
def cases() -> Cases:
    """The proof of the ring: its cases with their certificates."""
    return prove_stages(RING).cases


@cache
def plain() -> dict[str, Any]:
    """The first certificate as data."""
    return cases()[0][1].to_dict()


@cache
def program() -> Program:
    """The ring under the first certificate's case."""
    return extract(RING, cases()[0][0])


@cache
def facts() -> Facts:
    """Shared, so that a question is put to z3 only once."""
    return Facts(program().facts)


Change = Callable[[dict[str, Any]], None]


def judged(change: Change) -> str | None:
    """What the validator says of the first certificate, changed."""
    data = deepcopy(plain())
    change(data)
    return flaw(program(), from_dict(data), facts())


def test_the_certificate_holds_as_plain_data() -> None:
    assert judged(lambda data: data.update(json.loads(json.dumps(data)))) is None


@pytest.mark.parametrize("table", ["shift", "lag"])
def test_every_turn_is_checked(table: str) -> None:
    for i in range(len(plain()["turns"][table])):
        for step in (1, 2, -2):

            def move(data: dict[str, Any], i: int = i, step: int = step) -> None:
                data["turns"][table][i][1] += step

            assert judged(move) is not None


def test_every_end_is_checked() -> None:
    for i in range(len(plain()["turns"]["end"])):

        def longer(data: dict[str, Any], i: int = i) -> None:
            data["turns"]["end"][i][1][""] += 1

        assert judged(longer) is not None


def test_every_rank_is_checked() -> None:
    for i in range(len(plain()["ranks"])):
        verdicts = []
        for step in (-(10**6), 10**6):

            def move(data: dict[str, Any], i: int = i, step: int = step) -> None:
                data["ranks"][i][1][""] += step

            verdicts.append(judged(move))
        assert any(verdicts)


def test_every_path_is_needed() -> None:
    for i, some in enumerate(plain()["paths"]):
        if some:

            def drop(data: dict[str, Any], i: int = i) -> None:
                data["paths"][i] = []

            assert judged(drop) is not None


def test_every_step_of_a_path_is_checked() -> None:
    """Steps cannot be left out where agents meet, nor happen an iteration of the ring later."""
    for i, some in enumerate(plain()["paths"]):
        for j, path in enumerate(some or []):
            for k in range(1, len(path)):

                def late(data: dict[str, Any], i: int = i, j: int = j, k: int = k) -> None:
                    data["paths"][i][j][k][3]["S"] = data["paths"][i][j][k][3].get("S", 0) + 5

                assert judged(late) is not None


def test_a_path_without_its_start_or_end_is_refused() -> None:
    for i, some in enumerate(plain()["paths"]):
        for j, path in enumerate(some or []):
            if len(path) > 1:
                assert judged(lambda data, i=i, j=j: data["paths"][i][j].pop(0)) is not None  # type: ignore[misc]
                assert judged(lambda data, i=i, j=j: data["paths"][i][j].pop()) is not None  # type: ignore[misc]


def test_no_obligation_is_skipped() -> None:
    assert judged(lambda data: data["paths"].pop()) is not None
    for i, some in enumerate(plain()["paths"]):
        if some:
            assert judged(lambda data, i=i: data["paths"].__setitem__(i, None)) is not None  # type: ignore[misc]


def test_all_launches_are_covered() -> None:
    assert validate(RING, cases()[1:]) == "some launches are left out"


@pytest.mark.parametrize("name", ["two consumers", "tail", "deferred"])
def test_it_does_not_hold_for_another_kernel(name: str) -> None:
    (other,) = parse(GOOD[name], "ring.syncir")
    assert validate(other, cases()) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("empty[s], 32", "empty[s], 31"),
        ("(i // S + 1) % 2", "(i // S) % 2"),
        ("x, tile[i % S]", "x, tile[(i + 1) % S]"),
        ("bar.sync 0", "bar.sync 1, 32"),
        ("mbarrier.wait full[i % S], (i // S) % 2", ""),
    ],
)
def test_it_does_not_hold_for_a_kernel_with_a_mistake(old: str, new: str) -> None:
    (wrong,) = parse(GOOD["ring"].replace(old, new), "ring.syncir")
    assert validate(wrong, cases()) is not None


@pytest.mark.parametrize("key", ["turns", "ranks", "paths"])
def test_malformed_data_is_an_input_error(key: str) -> None:
    with pytest.raises(InputError):
        from_dict({k: v for k, v in plain().items() if k != key})
    with pytest.raises(InputError):
        from_dict({**plain(), key: 7})
