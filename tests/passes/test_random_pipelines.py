"""Random pipelines: what the passes synthesize is proved, in both policies, and computes what is meant."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.passes.synthesize import Options, synthesize
from syncverify.simulate.ir import run
from tests.passes.pipelines import inputs, pipeline


@pytest.mark.parametrize("seed", range(24))
def test_random_pipelines_are_proved_and_right(seed: int) -> None:
    plain, meant = pipeline(seed)
    policy = Policy.STRICT if seed % 2 else Policy.PRACTICAL
    options = Options(arrive="thread" if seed % 5 == 0 else "warp", reuse=seed % 3 == 0)
    kernel = synthesize(plain, policy, options)
    report = check_kernel(kernel, policy=policy)
    assert report.verdict is Verdict.PROVED, report.diagnostics
    given = inputs(kernel, seed)
    np.testing.assert_allclose(run(kernel, {}, given)["out"], meant(given)["out"], rtol=1e-4, atol=1e-4)
