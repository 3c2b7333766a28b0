"""Kernels that were slower by far are tried in no other context, unless they lie otherwise there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

from syncverify.torch import choice, slower, trials  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402
from tests.torch.test_worth import backend, refused  # noqa: E402, F401

#: The same softmax of rows that follow each other, and of rows whose elements lie apart.
ROWS, APART = (lambda: draw(8, 512)), (lambda: draw(512, 8).t())
LEFT_OUT = "not tried: slower by far in another context"


@pytest.fixture
def found(backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: F811
    """What is said of softmaxes one after the other, whose kernels take so long beside 100 us."""
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))

    def said(inputs: Sequence[Any], took: Iterator[float]) -> list[str]:
        monkeypatch.setattr(
            trials, "timed", lambda runs, *_: [100.0, *([next(took)] * len(runs[1:]) if runs[1:] else [])]
        )
        for x in inputs:
            texts = refused(backend, lambda x: F.softmax(x, -1), x())
        return [text.partition(":")[0] if not text.startswith(LEFT_OUT) else LEFT_OUT for text in texts]

    return said


@pytest.mark.parametrize(
    ("inputs", "took", "second"),
    [
        ((ROWS, APART), [124.0] * 2, "not faster"),
        ((ROWS, APART), [126.0] * 2, LEFT_OUT),
        # a copy may have cost what the kernel did not
        ((APART, ROWS), [126.0] * 4, "not faster"),
        # once the GPU did something else
        ((ROWS, APART), [126.0, 124.0, 124.0], "not faster"),
    ],
)
def test_what_is_slower_by_far_is_tried_in_no_other_context(
    found: Any, inputs: Sequence[Any], took: list[float], second: str
) -> None:
    left = iter(took)
    assert found(inputs, left) == ["not faster", second]
    assert not list(left)


def test_what_is_found_in_one_mode_says_nothing_of_another(
    found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = iter([126.0] * 4)
    assert found([ROWS], taken) == ["not faster"]
    monkeypatch.setattr(slower, "modes", lambda: "another")
    assert found([APART], taken)[-1] == "not faster"


def test_times_without_what_was_left_out_are_of_this_process_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    cpu, times = torch.device("cpu"), choice.Times(2.0)
    for on_disk in (False, True):
        monkeypatch.setattr(choice, "_FOUND", {})
        choice.remember("a", cpu, times, on_disk=on_disk)
        assert choice.remembered("a", cpu) == times
        monkeypatch.setattr(choice, "_FOUND", {})
        assert (choice.remembered("a", cpu) == times) == on_disk
