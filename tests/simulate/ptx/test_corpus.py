"""The corpus on the second reader: it finds the harm of wrong kernels, and none in right ones.

It judges the front end and the checker, whose verdicts the headers state, by means that they do not share.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.simulate.ptx import sample
from syncverify.simulate.ptx.confirm import Limits
from syncverify.simulate.ptx.outcomes import differing_outcome
from syncverify.simulate.ptx.syntax import parse_file
from tests.simulate.ptx.support import corpus_launch, expected

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "corpus" / "ptx").glob("*.ptx")) + sorted(
    (ROOT / "tests/frontends/ptx/red").glob("*.ptx")
)
#: Seeds for each kernel; harm that needs a schedule in a hundred is looked for longer.
SEEDS, RARE = 6, 60
#: Wrong kernels without harm: executions of one launch end with different memory.
ENDS_DIFFER = frozenset({"warp_sum_volatile.bad.ptx"})


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_verdict(path: Path) -> None:
    verdict = expected(path)
    module = parse_file(path)
    name = module.entries[0].name
    launch, other = corpus_launch(path, module), corpus_launch(path, module, constants=True)
    harms = [r.harm for x in (launch, other) for r in sample(module, name, x, range(SEEDS), limit=100_000)]
    if path.name in ENDS_DIFFER:
        accesses = frozenset(i.line for i in module.entries[0].body if i.op in ("ld", "st"))
        assert harms == [None] * 2 * SEEDS
        assert differing_outcome(module, name, lambda _: launch, Limits(100_000, 50_000, 0), accesses)[0]
    elif verdict == "proved":
        assert harms == [None] * 2 * SEEDS
    elif verdict == "refuted":
        rest = (r.harm for r in sample(module, name, launch, range(SEEDS, RARE), limit=100_000))
        assert any(harms) or any(h is not None for h in rest)
