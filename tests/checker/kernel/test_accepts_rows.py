"""What the benchmark of acceptance says of kernels that it has no answer for."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.checker.kernel_accepts import Item, died, forked, group_and_number, table


def _abort() -> list[dict[str, Any]]:
    os.write(2, b"terminate called")
    os.abort()


def _fail() -> list[dict[str, Any]]:
    raise ValueError("no kernel")


@pytest.mark.parametrize(
    ("rows", "answer", "why"),
    [
        (lambda: [{"answer": "accepted"}], "accepted", ""),
        (_abort, "died", "SIGABRT: terminate called"),
        (_fail, "error", "ValueError: no kernel"),
        (lambda: os._exit(3), "died", "exit status 3"),
    ],
)
def test_a_fork_has_an_answer(rows: Callable[[], list[dict[str, Any]]], answer: str, why: str) -> None:
    (row,) = forked(Item("x", rows), 20)
    assert row["answer"] == answer
    assert row.get("why", "").startswith(why)


def test_only_the_end_of_its_time_is_a_limit() -> None:
    assert died(signal.SIGXCPU, "", 7) == {"answer": "limit", "why": "more than 7 s"}
    assert died(signal.SIGXCPU, "not read\n", 7)["why"] == "more than 7 s; not read"
    assert died(signal.SIGKILL, "", 7)["answer"] == "died"


def test_no_share_counts_what_was_not_asked() -> None:
    def entry(answer: str) -> dict[str, Any]:
        return {"weight": 3, "at": "0", "rows": [{"answer": answer}]}

    said = table({"corpus": {"a": entry("accepted"), "b": entry("not asked"), "c": entry("no proof")}})
    assert "| corpus | 2 of 3 | 3 | 6 |" in said


def test_a_group_may_have_a_number() -> None:
    assert group_and_number("real:80") == ("real", 80)
    assert group_and_number("menu-ir") == ("menu-ir", None)
    for wrong in ("reel", "real:", "real:x"):
        with pytest.raises(argparse.ArgumentTypeError):
            group_and_number(wrong)
