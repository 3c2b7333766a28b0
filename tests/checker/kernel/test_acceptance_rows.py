"""What ``benchmarks/checker/acceptance.py`` asks about kernels, and what it makes of the answers."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import pytest

from benchmarks.checker import acceptance
from benchmarks.checker.acceptance import Asked, in_order, load, row, said, strange, table

GOOD = "kernel good {\n  launch grid [1] block [32]\n  bar.sync 0\n}\n"
BAD = """kernel bad {
  launch grid [1] block [64]
  shared s : f32[1]
  if tid == 0 {
    st.shared s[0], 1
  }
  if tid == 32 {
    ld.shared x, s[0]
  }
}
"""


@pytest.mark.parametrize(("text", "verdict"), [(GOOD, "proved"), (BAD, "refuted")])
def test_a_kernel_is_asked_and_its_certificate_followed(tmp_path: Path, text: str, verdict: str) -> None:
    file = tmp_path / "k.syncir"
    file.write_text(text)
    found = row(Asked("corpus", "k", file, None, 1.0, True), time.time() + 100, 100, plain=False)
    assert found is not None and found["verdict"] == verdict and found["check"] > 0
    if verdict == "proved":
        assert (found["accepted"], found["status"]) == ("kernel", 0)
        assert found["bytes"] > 0 and 0 < found["recheck"]
    else:
        assert "bytes" not in found and found["accepted"] == ""


def test_nothing_begins_once_the_time_is_over(tmp_path: Path) -> None:
    assert (
        row(Asked("corpus", "k", tmp_path / "none", None, 1.0, True), time.time() - 1, 9, plain=False) is None
    )


def test_what_is_given_up_is_a_limit() -> None:
    assert said(acceptance.Ended(None, 1.0, "", ""))["verdict"] == "limit"
    assert said(acceptance.Ended(2, 1.0, "", "error: no such file\n"))["why"] == "error: no such file"


def ordered(*groups: str, **more: object) -> list[Asked]:
    """What is asked about, with some options."""
    given = {"match": "", "seed": None, "dearest": False, "proved": False, **more}
    return in_order(groups, argparse.Namespace(**given))


def test_the_cheap_come_first_or_a_seed_decides() -> None:
    some = ordered("corpus")
    assert [x.cost for x in some] == sorted(x.cost for x in some) and len(some) > 200
    drawn = ordered("corpus", seed=7)
    assert drawn != some and drawn == ordered("corpus", seed=7) and set(drawn) == set(some)


def test_the_dearest_come_first_without_the_cheapest() -> None:
    some = ordered("corpus")
    assert ordered("corpus+150", dearest=True) == some[:149:-1]


def test_kernels_that_are_not_recorded_as_proved_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (Asked("all", x, Path(x), None, 1.0, x == "one") for x in ("one", "other"))
    monkeypatch.setattr(acceptance, "of_real", lambda _: [one, other])
    assert ordered("all", proved=True) == [one] and ordered("all") == [one, other]


def test_the_table_counts_and_says_what_is_not_as_asked(tmp_path: Path) -> None:
    good = {"group": "exact", "verdict": "proved", "accepted": "kernel", "why": "", "check": 2.0}
    rows = [
        {**good, "label": "a", "bytes": 1000, "recheck": 1.0, "status": 0},
        {**good, "label": "b", "bytes": 400_000, "recheck": 3.0, "status": 1},
        {**good, "label": "c", "accepted": "search", "why": "a/x.ptx:7: line 12", "bytes": 1, "recheck": 1.0,
         "status": 3},
        {"group": "exact", "label": "d", "verdict": "limit", "accepted": "", "why": "", "check": 9.0},
    ]  # fmt: skip
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows) + '{"cut o')
    assert load(file) == rows
    text = table(rows)
    assert "| exact | 4 | 3 | 2 | 66.7% | 3 | 2 | 400 KB |" in text
    assert "| exact | 1 | proved, not accepted: line # |" in text
    assert [bool(strange(r)) for r in rows] == [False, True, False, False]
    assert "exact b: 400 KB; recheck 3.0 s, check 2.0 s; accepted by kernel, recheck 1" in text
