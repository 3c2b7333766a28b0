"""Processes that are copies of one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from syncverify.base.forks import Forks, can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes cannot be copied here")

#: What is copied: it imports once, and each copy says which process it is, until its socket ends.
PROGRAM = """
import os
from syncverify.base.forks import serve
first = os.getpid()

def work(own):
    while own.recv(1):
        own.sendall(f"{first} {os.getppid()} {os.getpid()}".ljust(64).encode())

serve(work)
"""


@pytest.fixture
def forks() -> Forks:
    root = str(Path(__file__).resolve().parents[2])
    return Forks([sys.executable, "-c", PROGRAM], {**os.environ, "PYTHONPATH": root})


def said(forks: Forks, number: int) -> tuple[list[int], object]:
    own = forks.begin(number)
    own.settimeout(60)
    own.sendall(b"?")
    return [int(x) for x in own.recv(64).split()], own


def test_each_is_a_copy_of_one_process(forks: Forks) -> None:
    (first, parent, one), _a = said(forks, 0)
    (again, _, other), _b = said(forks, 1)
    assert first == parent == again and len({first, one, other}) == 3
    forks.close()


def test_one_ends_and_the_others_go_on(forks: Forks) -> None:
    _, ended = said(forks, 0)
    _, left = said(forks, 1)
    forks.end(0)
    assert ended.recv(64) == b""  # type: ignore[attr-defined]
    left.sendall(b"?")  # type: ignore[attr-defined]
    assert left.recv(64)  # type: ignore[attr-defined]
    forks.close()
    assert left.recv(64) == b""  # type: ignore[attr-defined]


def test_a_process_that_died_is_begun_again(forks: Forks) -> None:
    (first, *_), _a = said(forks, 0)
    assert forks._process is not None
    forks._process.kill()
    forks._process.wait()
    (later, *_), _b = said(forks, 0)
    assert later != first
    forks.close()
