"""A proof for every size beside checks at numbers.

Numbers are no part of the search here: a search that asks them first would refute what it wrongly proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.driver.ptx import every_size
from syncverify.driver.ptx.task import CheckTask
from tests.system.open_sizes.assumed import breaks_assumption

#: Seconds of one check.
SECONDS = 30.0


@dataclass(frozen=True)
class OpenKernel:
    """An entry ``k``; ``names``: of its parameters; ``assume``: what its author assumes of them."""

    text: str
    names: Sequence[str]
    assume: Sequence[str]

    def check(self, *assume: str, **options: Any) -> Verdict:
        """The verdict under some assumptions."""
        params = {str(i): name for i, name in enumerate(self.names)}
        facts = {"kernel": {"k": {"grid": [1, 1, 1], "params": params, "assume": list(assume)}}}
        (report,) = syncverify.check(
            self.text, facts=facts, timeout=SECONDS, replay=False, **options, advice=False
        )
        return report.verdict

    def assumed_away(self, values: Mapping[str, int]) -> bool:
        """Whether numbers break what a proof for every size says of arithmetic."""
        return breaks_assumption(self.text, values) is True

    def for_every_size(self) -> Verdict:
        """The verdict of the search alone."""
        with mock.patch.object(every_size, "refuted_early", lambda *_, **__: None):
            return self.check(*self.assume, scope="all")

    def with_sizes_as_data(self) -> Verdict:
        """The verdict of attempts alone that take some sizes for data."""
        with mock.patch.multiple(
            every_size,
            refuted_early=lambda *_, **__: None,
            _smallest=lambda _, found: found,
            _tried=tried_as_data,
        ):
            return self.check(*self.assume, scope="all")


def tried_as_data(k: CheckTask, prove: Any = None, tried: Any = every_size._tried) -> every_size.Attempt:
    """What an attempt finds, if it takes some sizes for data; else nothing."""
    if k.abstraction.parameters_as_data:
        attempt: every_size.Attempt = tried(k, prove)
        return attempt
    return every_size.Attempt(k, ParametricResult(Verdict.UNKNOWN, reason="left out"))


def contradiction(
    kernel: OpenKernel, numbers: Iterable[Mapping[str, int]], found: Verdict | None = None
) -> str | None:
    """The first numbers that refute a kernel which is proved for every size; ``found``: its verdict. Numbers
    that break what the proof says it assumes refute nothing."""
    if (found or kernel.for_every_size()) is not Verdict.PROVED:
        return None
    for values in numbers:
        if kernel.check(scope="exact", values=dict(values)) is Verdict.REFUTED:
            if kernel.assumed_away(values):
                continue
            return f"{dict(values)}, assumed {list(kernel.assume)}:\n{kernel.text}"
    return None
