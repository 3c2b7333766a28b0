"""Random rings: the verdict for every size against exact checks of all sizes up to 4 times the stages."""

from __future__ import annotations

from random import Random

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from tests.checker.prover.reach.kernels import ring, skipping


def random_ring(rng: Random) -> tuple[Kernel, int]:
    """A ring with up to two changes that matter for some sizes, or for none."""
    stages = rng.choice([1, 2, 3])
    changes: dict[str, str] = {}
    for _ in range(rng.choice([0, 1, 1, 2])):
        kind = rng.choice(["trips", "release", "parity", "before"])
        if kind == "trips":
            trips = [
                "N + 1",
                "max(N - 1, 0)",
                "N // 2",
                "(N + 1) // 2 * 2",
                "min(N, 5)",
                "N // 3 * 3",
                "max(N, 1)",
            ]
            changes["consumer_trips"] = rng.choice(trips)
        elif kind == "release":
            n = rng.randrange(6)
            tests = [
                f"i != {n}",
                f"i % {n + 2} != 1",
                f"i + {n} < N",
                f"i < {n + 1}",
                f"N != {n + 2}",
                "i >= 0",
            ]
            changes["release"] = skipping(rng.choice(tests))
        elif kind == "parity":
            laps = [
                "(i // {S} + 1) % 2",
                "min(i // {S}, 1)",
                "min(i // {S}, 3) % 2",
                "i % 2",
                "(N + i // {S}) % 2",
            ]
            changes["parity"] = rng.choice(laps)
        else:
            changes["before"] = rng.choice(["if N > 3 {{\n bar.sync 1, 128\n }}", "bar.sync 1, 128"])
    return ring(stages, **changes), stages


@pytest.mark.parametrize("seed", range(24))
def test_the_verdict_is_that_of_all_sizes(seed: int) -> None:
    kernel, stages = random_ring(Random(seed))
    found = all_sizes(kernel, {}, Policy.PRACTICAL, lambda v: check_kernel(kernel, v).verdict)
    exact = [check_kernel(kernel, {"N": n}).verdict for n in range(4 * stages + 4)]
    if found.verdict is Verdict.PROVED:
        assert set(exact) == {Verdict.PROVED}
    if Verdict.REFUTED in exact:
        assert found.verdict is Verdict.REFUTED
        assert found.values["N"] == exact.index(Verdict.REFUTED)
