"""Children that are watched: how they end, and what they had printed by then."""

from __future__ import annotations

import sys
import time

import pytest

from syncverify.gate.unsafe_run import watched


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", f"import sys, time\n{code}"]


def test_work_goes_in_and_output_comes_back() -> None:
    seen = watched(python("print(len(sys.stdin.buffer.read()))"), b"x" * 1_000_000, 30.0)
    assert (seen.ending, seen.output, seen.message) == ("finished", "1000000\n", "")


def test_a_deadline_keeps_what_was_printed() -> None:
    seen = watched(python("print('begun'); time.sleep(60)"), b"", 3.0)
    assert (seen.ending, seen.output) == ("timeout", "begun\n")


def test_silence_counts_from_the_first_line() -> None:
    begun = time.monotonic()
    seen = watched(python("time.sleep(1); print('begun'); time.sleep(60)"), b"", 50.0, quiet=0.3)
    assert (seen.ending, seen.output) == ("timeout", "begun\n") and "silence" in seen.message
    assert 1.0 < time.monotonic() - begun < 30.0


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        ("CUDA: waiting for the kernel failed: CUDA_ERROR_LAUNCH_FAILED", "crashed"),
        ("CUDA error: an illegal memory access was encountered\\nmore about it", "crashed"),
        ("no CUDA driver", "failed"),
    ],
)
def test_what_the_hardware_stopped_is_told_from_other_failures(message: str, ending: str) -> None:
    seen = watched(python(f"sys.exit('{message}')"), b"", 30.0)
    assert seen.ending == ending and message.split("\\n")[0] in seen.message


def test_a_child_that_reads_nothing() -> None:
    assert watched(python("pass"), b"x" * 1_000_000, 30.0).ending == "finished"
