"""Guards over time and memory: what they end, and what they leave alone."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from syncverify.base import deadline
from syncverify.base.deadline import (
    Guard,
    OutOfBudgetError,
    OutOfMemoryError,
    OutOfStepsError,
    OutOfTimeError,
    check,
    guarded,
    within,
    within_steps,
)
from syncverify.base.reason import Cause


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until a test moves it."""
    now = [100.0]
    fake = SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: now[0])
    monkeypatch.setattr(deadline, "time", fake)
    return now


def test_time_is_over_when_it_is_over(clock: list[float]) -> None:
    with guarded(Guard(5)):
        clock[0] += 5
        check()
        clock[0] += 0.1
        with pytest.raises(OutOfTimeError) as e:
            check()
    assert e.value.reason.kind is Cause.TIMEOUT
    assert str(e.value) == "it takes more than 5 seconds"
    check()  # and no more


def test_a_threads_time_is_asked_for_when_it_may_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now, own, asked = [100.0], [7.0], list[float]()

    def thread_time() -> float:
        asked.append(own[0])
        return own[0]

    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=thread_time))
    with within(5):
        for _ in range(1000):
            check()
        assert len(asked) == 2  # where it begins, and at the first question
        now[0] += 6  # of which this thread has had a second
        own[0] += 1
        check()
        now[0] += 3.9
        own[0] += 3.9
        check()  # a second more than that, at least, is left by the clock
        assert len(asked) == 3
        now[0] += 0.2
        own[0] += 0.2
        with pytest.raises(OutOfTimeError, match="more than 5 seconds"):
            check()


def test_memory_is_what_the_work_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [500 << 20]
    monkeypatch.setattr(deadline, "resident", lambda: held[0])
    with guarded(Guard(None, 10)):
        for _ in range(1000):
            check()
        held[0] += 11 << 20
        with pytest.raises(OutOfMemoryError) as e:
            for _ in range(1000):
                check()
    assert e.value.reason.kind is Cause.MEMORY


def test_steps_are_over_after_so_many_whatever_the_time(clock: list[float]) -> None:
    with within_steps(100):
        clock[0] += 1e9
        check(60)
        check(40)
        with pytest.raises(OutOfStepsError) as e:
            check()
    assert e.value.reason.kind is Cause.BUDGET
    check(1000)  # and no more


def test_steps_inside_are_steps_outside() -> None:
    with within_steps(10):
        with within_steps(100), pytest.raises(OutOfStepsError) as e:
            check(11)
        assert e.value.steps == 10


def test_without_limits_there_is_no_end(clock: list[float]) -> None:
    with guarded(Guard(None)):
        clock[0] += 1e9
        check()


def test_a_loop_that_never_asks_is_ended_by_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "_TICK", 0.01)
    monkeypatch.setattr(deadline, "_GRACE", 0.0)
    with pytest.raises(OutOfBudgetError), guarded(Guard(0.02)):
        while True:
            pass
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_import_is_not_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(deadline, "_TICK", 0.01)
    monkeypatch.setattr(deadline, "_GRACE", 0.0)
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = (
        "import time",
        "end = time.monotonic() + 0.2",
        "while time.monotonic() < end: pass",
        "whole = True",
    )
    (tmp_path / "slow_module.py").write_text("\n".join(lines))
    with pytest.raises(OutOfBudgetError), guarded(Guard(0.02)):
        module = importlib.import_module("slow_module")
        while True:
            pass
    assert module.whole and sys.modules.pop("slow_module") is module


def test_other_threads_ask_for_themselves(clock: list[float]) -> None:
    raised: list[bool] = []

    def work() -> None:
        with guarded(Guard(1)):
            clock[0] += 2
            try:
                check()
            except OutOfTimeError:
                raised.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised == [True]
