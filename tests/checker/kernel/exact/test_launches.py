"""What the judge of launches says of PTX files of the corpus: tokens, descriptors, strong words, scopes."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.kernel.exact import NotJudgedError
from syncverify.checker.outcome import Outcome
from syncverify.driver.certificates import RejectedError
from syncverify.driver.files import read_source
from syncverify.driver.ptx.check import Checker, check_module
from syncverify.frontends.launch_facts import read_facts
from syncverify.model.events import System
from tests.driver.certificates.test_exact import CORPUS, follow


def said(name: str) -> set[str]:
    """What the judge says of the systems of a file's launch."""
    path = CORPUS / "ptx" / f"{name}.ptx"
    source, facts = read_source(path), read_facts(path.with_name(f"{path.name}.launch.toml"))
    found: set[str] = set()

    def judge(system: System, policy: Policy) -> Outcome:
        try:
            follow(system)
            found.add("holds")
        except NotJudgedError as e:
            found.add(f"not judged: {e}")
        except RejectedError as e:
            found.add(f"rejected: {e.what}")
        return Outcome(Verdict.PROVED)

    assert source.module is not None
    (entry,) = source.module.entries
    check_module(
        source.module, facts, Policy.PRACTICAL, Checker(judge), kernel=entry.name, values={},
        source_hash="", scope=ScopeKind.EXACT,
    )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("token_of_another_barrier.bad", "the token is of no arrival on this barrier"),
        ("wgmma_operands.bad", "warps of a warpgroup execute different wgmmas"),
        ("warp_sum_volatile.bad", "strong accesses in no order"),
    ],
)
def test_wrong_launches(name: str, why: str) -> None:
    (answer,) = said(name)
    assert answer != "holds" and why in answer


@pytest.mark.parametrize("name", ["fence_of_the_cluster.good", "wgmma_operands.good"])
def test_right_launches(name: str) -> None:
    assert said(name) == {"holds"}
