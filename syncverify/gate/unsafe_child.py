"""The child of an unsafe run: launches a kernel that is not proved, and prints how much of it was wrong.

``python -m syncverify.gate.unsafe_child`` reads its work from standard input; ``unsafe_run`` starts it.
"""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np

from syncverify.base.diagnostics import Policy
from syncverify.codegen import driver
from syncverify.codegen.arrays import describe
from syncverify.fusion.plan import launch_values
from syncverify.gate.fusions import Program, run_on_host
from syncverify.gate.reference_run import TOLERANCE


def _main() -> None:
    fusion, kernel, sizes, launches = pickle.load(sys.stdin.buffer)
    program = Program(kernel, Policy.PRACTICAL)
    values = launch_values(fusion, kernel, sizes, driver.multiprocessors(0))
    inputs = fusion.random_inputs(sizes)
    reference = fusion.reference(inputs)
    wrong = elements = 0
    for _ in range(launches):
        outputs = [np.full(r.shape, np.nan, r.dtype) for r in reference]
        results = {o.name: describe(a) for o, a in zip(fusion.outputs, outputs, strict=True)}
        run_on_host(program, {n: describe(a) for n, a in inputs.items()}, results, values)
        for o, got, want in zip(fusion.outputs, outputs, reference, strict=True):
            a, b = np.asarray(got, np.float32), np.asarray(want, np.float32)
            close = np.abs(a - b) <= TOLERANCE[o.dtype] * np.maximum(np.abs(b), np.float32(1.0))
            wrong += int(close.size - np.count_nonzero(close))
            elements += close.size
    print(json.dumps({"wrong": wrong, "elements": elements}))


if __name__ == "__main__":
    _main()
