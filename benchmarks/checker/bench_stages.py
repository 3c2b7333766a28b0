"""Cost of proofs for every number of stages, and of their validation.

    python benchmarks/checker/bench_stages.py [NAME...]

Prints, for each kernel of ``tests/checker/prover/rings/kernels.py``, the CPU seconds of the symbolic proof
(search and validation), of the validation alone and of the whole decision, and how many obligations and
questions to z3 there were.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from syncverify.base.diagnostics import Policy
from syncverify.checker.prover.rings import decide_stages, prove_stages, validate
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.checker.prover.rings.kernels import GOOD


def main(wanted: list[str]) -> None:
    print("kernel            prove  validate  decide  obligations  questions  verdict")
    for name, text in GOOD.items():
        if wanted and name not in wanted:
            continue
        (kernel,) = parse(text, name)
        start = time.process_time()
        proof = prove_stages(kernel)
        proved = time.process_time()
        assert validate(kernel, proof.cases) is None
        validated = time.process_time()
        found = decide_stages(kernel, {}, Policy.PRACTICAL, lambda v, k=kernel: check_kernel(k, v).verdict)
        assert found is not None
        end = time.process_time()
        owed = sum(len(c.paths) for _, c in proof.cases)
        times = f"{proved - start:6.2f}  {validated - proved:8.2f}  {end - validated:6.2f}"
        print(f"{name:15}  {times}  {owed:11}  {proof.questions:9}  {found.verdict}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
