"""Certificates hold for their kernels; with any change, or for another kernel, they are rejected."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind
from syncverify.base.source import InputError
from syncverify.cli.main import run
from syncverify.driver.certificates import RejectedError, certify, dumps, recheck, resealed
from syncverify.driver.files import read_source
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.rings.kernels import GOOD
from tests.driver.certificates.mutate import changed, changes, elsewise, unordered

CORPUS = Path(__file__).parents[3] / "corpus"
SIZES = [
    "sizes/even_by_assumption.good",
    "sizes/bytes_gathered_slowly.good",
    "sizes/parity_by_size.good",
    "sizes/group_missing_in_short_prologue.good",
    "sizes/role_leaves_the_loop_early.good",
    "sizes/rows_leave_before_the_barrier.good",
    "sizes/warps_count_their_own_rows.good",
    "sizes/tokens_of_two_slots.good",
    "sizes/staging_in_second_persistent_tile.good",  # products of unknowns
    "sizes/last_block_is_ragged.good",
    "sizes/assumed_relation_of_sizes.good",  # states that only the search distinguishes
    "sizes/step_of_a_loop_is_a_size.good",  # quotients of sizes
]
EXACT = [
    "sizes/even_by_assumption.good",
    "depth/odd_trip_count.good",
    "sizes/token_of_an_earlier_phase.good",
    "theory/06b_lanes_of_one_warp_synced",
    "sizes/rows_leave_before_the_barrier.good",
]
ALL = [(name, ScopeKind.ALL) for name in SIZES] + [(name, ScopeKind.EXACT) for name in EXACT]
#: A certificate that takes a second to follow: changes of the others say the same.
LONG = "sizes/assumed_relation_of_sizes.good"
MANY = [pytest.param(*x, marks=pytest.mark.slow if x[0] == LONG else ()) for x in ALL]
#: Changes of a certificate that are tried, spread evenly: every second one in the suite.
MOST = 20
HALVES = [0, pytest.param(1, marks=pytest.mark.slow)]


@cache
def kernel(name: str) -> Kernel:
    return read_source(CORPUS / f"{name}.syncir").kernels[0]


@cache
def text(name: str, scope: ScopeKind) -> str:
    return dumps([certify(kernel(name), check_kernel(kernel(name), scope=scope))])


def judged(data: Any, name: str) -> str | None:
    """Why the data, with its digests made again, proves nothing of a kernel; None if it holds."""
    try:
        recheck(json.dumps(resealed(data)), "ring.json", {kernel(name).name: kernel(name)})
    except (RejectedError, InputError) as e:
        return str(e)
    return None


@pytest.mark.parametrize(("name", "scope"), ALL)
def test_a_certificate_holds(name: str, scope: ScopeKind) -> None:
    (r,) = recheck(text(name, scope), "c.json", {kernel(name).name: kernel(name)})
    assert r.kind == ("sizes" if scope is ScopeKind.ALL else "exact")


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(("name", "scope"), MANY)
def test_any_change_is_rejected(name: str, scope: ScopeKind, half: int) -> None:
    data = json.loads(text(name, scope))
    every = [c for c in changes(data) if not unordered(*c)]
    some = every[:: max(1, len(every) // MOST)]
    assert [c for c in some[half::2] if judged(changed(data, *c), name) is None] == []


def test_another_state_covers_nothing() -> None:
    """What the search alone keeps apart is not compared; forms and values are."""
    name = LONG
    data = json.loads(text(name, ScopeKind.ALL))
    nodes = data["kernels"][0]["proof"]["systems"][0]["nodes"]
    last = max(i for i, n in enumerate(nodes) if n["is"] == "covered")
    others = [i for i, n in enumerate(nodes[:last]) if "state" in n and i != nodes[last]["by"]]
    why = []
    for by in others[:: len(others) // 4]:
        node = ("kernels", 0, "proof", "systems", 0, "nodes", last)
        wrong = changed(data, node, "left out")
        wrong["kernels"][0]["proof"]["systems"][0]["nodes"].insert(last, {**nodes[last], "by": by})
        why.append(judged(wrong, name))
    assert None not in why
    assert any("another form" in str(w) for w in why)


def test_digests_are_checked() -> None:
    data = json.loads(text(SIZES[0], ScopeKind.ALL))
    for broken in (changed(data, ("digest",), "text"), changed(data, ("kernels", 0, "digest"), "text")):
        with pytest.raises(RejectedError, match="digest"):
            recheck(json.dumps(broken), "c.json", {kernel(SIZES[0]).name: kernel(SIZES[0])})


def test_the_certificate_of_another_kernel_is_rejected() -> None:
    data = json.loads(text("depth/odd_trip_count.good", ScopeKind.ALL))
    data["kernels"][0]["kernel"] = kernel("depth/odd_trip_count.bad").name
    assert "another text" in (judged(data, "depth/odd_trip_count.bad") or "")


def test_the_steps_of_another_kernel_prove_nothing() -> None:
    """Even where its text is written over."""
    data = json.loads(text("depth/odd_trip_count.good", ScopeKind.ALL))
    bad = "depth/odd_trip_count.bad"
    own = json.loads(text(SIZES[0], ScopeKind.ALL))
    data["kernels"][0] |= {"kernel": kernel(bad).name, "text": _text(bad)}
    assert judged(data, bad) is not None
    own["kernels"][0]["proof"] = data["kernels"][0]["proof"]
    assert judged(own, SIZES[0]) is not None


def _text(name: str) -> str:
    from syncverify.driver.verdicts import text_hash
    from syncverify.ir.text.printer import print_kernel

    return text_hash(print_kernel(kernel(name)))


def test_what_is_refuted_has_no_certificate() -> None:
    bad = kernel("depth/odd_trip_count.bad")
    with pytest.raises(InputError, match="no proof"):
        certify(bad, check_kernel(bad, scope=ScopeKind.ALL))


def test_a_file_that_is_no_certificate_is_unreadable() -> None:
    for wrong in ("", "[]", "{}", '{"format": "syncverify certificate", "version": 1}'):
        with pytest.raises(InputError):
            recheck(wrong, "c.json", {})


def test_proofs_for_every_number_of_stages() -> None:
    ring, data = for_stages(GOOD["ring"])
    (done,) = recheck(json.dumps(data), "c.json", {ring.name: ring})
    assert done.kind == "stages"
    at = ("kernels", 0, "proof")
    for path in [
        ("cases", 0),
        ("parts", 0),
        ("cases", 0, "fixed", 0),
        ("cases", 0, "certificate", "paths", 0),
    ]:
        with pytest.raises(RejectedError):
            recheck(json.dumps(resealed(changed(data, (*at, *path), "left out"))), "c", {ring.name: ring})


EACH = GOOD["ring"].replace("tile : f32[S, 64]", "tile : f32[S, 16384] offset 1024")
EACH = EACH.replace("bulk.load tile[i % S],", "bulk.load tile[i % S][0 : 64],")


@cache
def _for_stages(text: str) -> tuple[Kernel, str]:
    (ring,) = parse(text, "ring.syncir")
    return ring, dumps([certify(ring, check_kernel(ring, scope=ScopeKind.ALL))])


def for_stages(text: str) -> tuple[Kernel, Any]:
    """A ring of any number of slots, and the data of its certificate."""
    ring, certificate = _for_stages(text)
    return ring, json.loads(certificate)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("stages", GOOD["ring"]),
        pytest.param("stages", GOOD["registers"], marks=pytest.mark.slow),
        pytest.param("each", EACH, marks=pytest.mark.slow),
    ],
)
def test_any_change_of_a_proof_for_stages_is_rejected(kind: str, text: str, half: int) -> None:
    ring, data = for_stages(text)
    assert data["kernels"][0]["proof"]["kind"] == kind
    every = [c for c in changes(data) if not unordered(*c) and not elsewise(*c)]
    some = every[7 :: len(every) // (2 * MOST)]
    accepted = []
    for change in some[half::2]:
        try:
            recheck(json.dumps(resealed(changed(data, *change))), "c", {ring.name: ring})
            accepted.append(change)
        except (RejectedError, InputError):
            pass
    assert accepted == []


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = (str(CORPUS / f"depth/odd_trip_count.{x}.syncir") for x in ("good", "bad"))
    file = tmp_path / "c.json"
    assert run(["check", good, "--certificate", str(file)]) == 0
    assert run(["recheck", str(file), good]) == 0
    assert "every size" in capsys.readouterr().out
    assert run(["recheck", str(file), bad]) == 1
    assert "rejected" in capsys.readouterr().out
    file.write_text("{}")
    assert run(["recheck", str(file), good]) == 2


def test_proofs_for_each_number_of_stages() -> None:
    """Shared memory of fixed places: no proof for all numbers of stages at once, and room for three."""
    ring, data = for_stages(EACH)
    (done,) = recheck(json.dumps(data), "c.json", {ring.name: ring})
    assert done.kind == "each"
    parts = data["kernels"][0]["proof"]["parts"]
    assert [part["values"] for part in parts] == [{"S": 1}, {"S": 2}, {"S": 3}]
    at = ("kernels", 0, "proof", "parts")
    for how, path in [("left out", (*at, 1)), ("repeated", (*at, 0)), ("more", (*at, 2, "values", "S"))]:
        with pytest.raises(RejectedError):
            recheck(json.dumps(resealed(changed(data, path, how))), "c", {ring.name: ring})


def test_an_exploration_that_began_anew_is_replayed_as_it_was(tmp_path: Path) -> None:
    """What the first one had forgotten of sizes is none of the second one's."""
    from syncverify.cli.main import run

    kernel = str(Path(__file__).parents[3] / "corpus" / "idioms" / "cp_async_multistage.syncir")
    certificate = str(tmp_path / "c.json")
    assert run(["check", kernel, "--certificate", certificate]) == 0
    assert run(["recheck", certificate, kernel]) == 0
