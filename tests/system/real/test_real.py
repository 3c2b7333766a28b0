"""The real kernels of the cache: they parse, their launch files fit, the verdicts are those on record."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.launch.facts import ptx_facts
from tests.system.real.cache import VARIABLE, Kernel, kernels
from tests.system.real.generate import TRITON, installed_here

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "benchmarks" / "results" / "real.json"
PER_FAMILY = 2


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Kernel]:
    """The cached kernels; a handful made now where Triton is installed beside the tests."""
    found = kernels()
    if not found and installed_here(TRITON):
        root = tmp_path_factory.mktemp("real")
        command = [sys.executable, "-m", "tests.system.real.generate", "--tiny"]
        subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {VARIABLE: str(root)})
        found = kernels(root)
    if not found:
        pytest.skip("no real kernels in the cache: python -m tests.system.real.generate [--tiny]")
    return found


@pytest.fixture(scope="session")
def sample(corpus: list[Kernel]) -> list[Kernel]:
    """The shortest kernels of every family."""
    return list(_shortest(corpus))


def _shortest(corpus: list[Kernel]) -> Iterator[Kernel]:
    taken: Counter[str] = Counter()
    for kernel in sorted(corpus, key=lambda k: k.lines):
        taken[kernel.family] += 1
        if taken[kernel.family] <= PER_FAMILY:
            yield kernel


def test_the_whole_corpus_is_wide_and_balanced(corpus: list[Kernel]) -> None:
    families = Counter(k.family for k in corpus)
    if len(families) < 8:
        pytest.skip(f"the cache holds {len(families)} families only: python -m tests.system.real.generate")
    assert len(corpus) >= 120
    assert max(families.values()) <= 0.3 * len(corpus), families


def test_each_kernel_parses_and_its_launch_files_fit(sample: list[Kernel]) -> None:
    for kernel in sample:
        module = read_source(kernel.ptx).module
        assert module is not None and len(module.entries) == 1, kernel.label
        for scope in ("exact", "all", "block"):
            facts = ptx_facts(read_facts(kernel.facts(scope)), module.entries[0])
            assert facts.block is not None, kernel.label


@pytest.fixture(scope="session")
def verdicts(sample: list[Kernel]) -> dict[str, Verdict]:
    """What is said of each kernel of the sample for its exact launch."""
    return {
        k.label: check_source(read_source(k.ptx), facts=read_facts(k.facts("exact")))[0].verdict
        for k in sample
    }


def test_verdicts_for_exact_sizes_are_those_on_record(
    sample: list[Kernel], verdicts: dict[str, Verdict]
) -> None:
    record = json.loads(RECORD.read_text())
    known = [k for k in sample if record.get(k.label, {}).get("generator") == k.generator]
    assert known, "the record knows none of these kernels"
    assert {k.label: verdicts[k.label].value for k in known} == {
        k.label: record[k.label]["exact"]["verdict"] for k in known
    }
