"""Running kernels that are not proved, on purpose: in a child process, under a deadline.

A refuted kernel may hang the GPU's context; killing the process that owns the context frees it.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from syncverify.diagnostics import Policy
from syncverify.fusion.graph import Fusion
from syncverify.ir.nodes import Kernel

Ending = Literal["finished", "timeout", "crashed", "failed"]


@dataclass(frozen=True, slots=True)
class UnsafeResult:
    """How the child ended: ``timeout`` is a hang, ``crashed`` a kernel that the hardware stopped.

    ``wrong`` counts elements that differ from the reference, over all launches.
    """

    ending: Ending
    wrong: int = 0
    elements: int = 0
    message: str = ""


def run_in_child(
    fusion: Fusion, kernel: Kernel, sizes: Mapping[str, int], timeout: float, launches: int
) -> UnsafeResult:
    """Starts ``python -m syncverify.unsafe`` with this work and kills it at the deadline."""
    work = pickle.dumps((fusion, kernel, dict(sizes), launches))
    child = subprocess.Popen(
        [sys.executable, "-m", "syncverify.unsafe"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = child.communicate(work, timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return UnsafeResult("timeout", message=f"killed after {timeout} s")
    if child.returncode != 0:
        lines = err.decode(errors="replace").strip().splitlines()
        message = lines[-1] if lines else f"status {child.returncode}"
        return UnsafeResult(
            "crashed" if "waiting for the kernel failed" in message else "failed", message=message
        )
    answer = json.loads(out)
    return UnsafeResult("finished", answer["wrong"], answer["elements"])


def _main() -> None:
    from syncverify import gate
    from syncverify.codegen import driver
    from syncverify.codegen.arrays import describe
    from syncverify.fusion.plan import launch_values

    fusion, kernel, sizes, launches = pickle.load(sys.stdin.buffer)
    program = gate.Program(kernel, Policy.PRACTICAL)
    values = launch_values(fusion, kernel, sizes, driver.multiprocessors(0))
    inputs = fusion.random_inputs(sizes)
    reference = fusion.reference(inputs)
    wrong = elements = 0
    for _ in range(launches):
        outputs = [np.full(r.shape, np.nan, r.dtype) for r in reference]
        results = {o.name: describe(a) for o, a in zip(fusion.outputs, outputs, strict=True)}
        gate.run_on_host(program, {n: describe(a) for n, a in inputs.items()}, results, values)
        for o, got, want in zip(fusion.outputs, outputs, reference, strict=True):
            a, b = np.asarray(got, np.float32), np.asarray(want, np.float32)
            close = np.abs(a - b) <= gate.TOLERANCE[o.dtype] * np.maximum(np.abs(b), np.float32(1.0))
            wrong += int(close.size - np.count_nonzero(close))
            elements += close.size
    print(json.dumps({"wrong": wrong, "elements": elements}))


if __name__ == "__main__":
    _main()
