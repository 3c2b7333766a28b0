"""Kernels of CUDA for the rules: each wrong one breaks its rule, each right one does not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.rules import RULES
from syncverify.docgen import WITHOUT_CUDA, cuda_examples
from syncverify.driver.files import Options, SourceFile, check_each, read_source
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.launch_facts import read_facts

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "corpus" / "gallery" / "rules.cu"
EXAMPLES = cuda_examples(ROOT)
HERE = sorted(rule for rule, (where, _) in EXAMPLES.items() if where == "corpus/gallery/rules.cu")


def test_every_rule_has_an_example_or_a_reason() -> None:
    assert EXAMPLES.keys() | WITHOUT_CUDA.keys() == RULES.keys()
    assert not EXAMPLES.keys() & WITHOUT_CUDA.keys()


@cache
def _source(bad: bool) -> SourceFile:
    return read_source(SOURCE, CudaOptions(defines=("BAD",) if bad else ()))


def _check(rule: str, bad: bool) -> KernelReport:
    facts = read_facts(SOURCE.with_suffix(".cu.launch.toml"))
    policy = Policy.STRICT if rule == "SV207" else Policy.PRACTICAL
    options = Options(policy=policy, entry=rule, advice=True, scope=ScopeKind.ALL, replay=False)
    (report,) = check_each(_source(bad), facts, options)
    return report


@pytest.mark.parametrize("rule", HERE)
def test_the_wrong_kernel_breaks_its_rule_and_the_right_one_does_not(rule: str) -> None:
    wrong, right = _check(rule, bad=True), _check(rule, bad=False)
    assert rule in {d.rule for d in wrong.diagnostics}
    if rule < "SV600" or rule == "SV908":
        assert wrong.verdict is Verdict.REFUTED
    assert right.verdict is Verdict.PROVED, right.reason
    assert rule not in {d.rule for d in right.diagnostics}
