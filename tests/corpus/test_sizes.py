"""The good kernels are good for other sizes too: few tiles, fewer than stages, odd numbers, even numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse_file
from tests.corpus.entries import Entry, entries

GOOD = [e for e in entries() if e.kind == "good" or e.family == "idioms"]
COUNTS = (1, 2, 5, 6)

#: Parameters with larger defaults are lengths in elements, not numbers of tiles.
LARGEST_COUNT = 16


def _launches(kernel: Kernel) -> Iterator[Mapping[str, int]]:
    defaults = {p.name: p.default for p in kernel.params if p.default is not None}
    for param, default in defaults.items():
        for count in COUNTS:
            values = {**defaults, param: count}
            if default <= LARGEST_COUNT and all(evaluate(a, values) for a in kernel.assumes):
                yield values


@pytest.mark.parametrize("entry", GOOD, ids=lambda e: e.name)
def test_good_kernels_stay_proved(entry: Entry) -> None:
    (kernel,) = parse_file(entry.path)
    for values in _launches(kernel):
        report = check_kernel(kernel, values, file=entry.name)
        assert report.verdict == Verdict.PROVED, (values, report.reason)
