"""The kernel stays small, and imports neither search nor solver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checker.trusted_lines import BESIDES, JUDGES, ROOT, code_lines, rooms, trusted

#: Ratchets: lower them when something shrinks; to raise one is a decision that the commit explains.
MOST = 1_499
MOST_IN_ALL = {
    "a kernel of PTX, every size": 7_828,
    "a kernel of the IR with a number of stages, every other size": 9_719,
    "a kernel of the IR whose number of stages is a parameter": 6_933,
}


@pytest.mark.parametrize("what", JUDGES)
def test_what_is_trusted_stays_small(what: str) -> None:
    found = rooms(JUDGES[what])
    assert found["kernel, proofs of protocols"] <= MOST
    assert sum(found.values()) <= MOST_IN_ALL[what]


def test_all_that_the_judge_of_certificates_loads_is_counted() -> None:
    code = (
        "import sys, syncverify.driver.by_kernel\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('syncverify.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {str(Path(f).relative_to(ROOT)) for f in done.stdout.split() if code_lines(Path(f).read_text())}
    assert loaded - set(trusted(JUDGES["a kernel of PTX, every size"])) == set()


def test_what_is_left_out_exists() -> None:
    assert all((ROOT / name).exists() for name in BESIDES)


def test_comments_docstrings_and_blank_lines_do_not_count() -> None:
    assert code_lines('"""Two\nlines."""\n\n# more\nx = 1\n\n\ndef f():\n    """One."""\n    return x\n') == 3


def test_the_kernel_loads_no_search_and_no_solver() -> None:
    rooms = ("checker.prover", "checker.happens_before", "ir", "symbolic", "simulate", "frontends")
    heavy = ("z3", *(f"syncverify.{room}" for room in rooms))
    code = (
        "import sys, syncverify.checker.kernel.accept\n"
        f"print([m for m in sys.modules if m.startswith({heavy})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
