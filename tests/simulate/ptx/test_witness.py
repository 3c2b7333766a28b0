"""Witnesses of the checker come true on the text: the second reader follows their steps."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import syncverify
from syncverify.report.witness import to_dict
from syncverify.simulate.ptx.drawn import drawn
from syncverify.simulate.ptx.syntax import parse_file
from syncverify.simulate.ptx.witness import replay, steps_of

CORPUS = Path(__file__).parents[3] / "corpus" / "ptx"
#: One of each claim, quick to check; and one whose steps are many.
NAMES = [
    "one_fence",
    "named_barriers",
    "role_bytes",
    "tensor_tile",
    "cp_async_matrix",
    "matrix_store",
    "token",
]


@pytest.mark.parametrize("name", NAMES)
def test_witness_comes_true(name: str) -> None:
    path = CORPUS / f"{name}.bad.ptx"
    module = parse_file(path)
    table = tomllib.loads(Path(f"{path}.launch.toml").read_text())["kernel"][name]
    (report,) = syncverify.check(path, scope="exact", advice=False)
    assert report.witness is not None
    witness = to_dict(report.witness)
    result = replay(module, witness, drawn(module, name, table, witness["values"]))
    assert result.reproduced, result
    assert result.missed == ()


def test_a_right_kernel_does_not_do_what_the_witness_of_its_twin_claims() -> None:
    bad, good = CORPUS / "one_fence.bad.ptx", CORPUS / "one_fence.good.ptx"
    table = tomllib.loads(Path(f"{bad}.launch.toml").read_text())["kernel"]["one_fence"]
    (report,) = syncverify.check(bad, scope="exact", advice=False)
    assert report.witness is not None
    module = parse_file(good)
    assert not replay(module, to_dict(report.witness), drawn(module, "one_fence", table)).reproduced


def test_agents_of_another_form_are_an_error() -> None:
    with pytest.raises(ValueError, match="no agent"):
        steps_of({"steps": [{"agent": "somebody", "line": 3}]})
