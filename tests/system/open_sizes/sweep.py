"""Random kernels beside checks at numbers, for as long as is asked:

    python -m tests.system.open_sizes.sweep MODULE FIRST JOBS SECONDS OUT

``MODULE``: ``addresses``, ``conditions``, ``ring_loops`` or ``carved_rows``; ``FIRST``: the first seed.
``OUT`` gets a JSON object for each kernel. What is printed counts verdicts by what the numbers say of them.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from syncverify.base.diagnostics import Verdict
from tests.system.open_sizes.agreement import OpenKernel

WRONG = "WRONG PROOF"
#: What a verdict for every size is beside a number that refutes, and without one.
KINDS = {
    (Verdict.PROVED, True): WRONG,
    (Verdict.PROVED, False): "proved",
    (Verdict.REFUTED, True): "refuted",
    (Verdict.REFUTED, False): "refuted, by no number that was tried",
    (Verdict.UNKNOWN, True): "wrong, unknown",
    (Verdict.UNKNOWN, False): "perhaps right, unknown",
}


def judged(module: str, seed: int) -> dict[str, Any]:
    """The verdict of one kernel, and the first numbers that refute it."""
    kernel, numbers = import_module(f"tests.system.open_sizes.{module}").kernel(seed)[:2]
    start = time.process_time()
    try:
        verdict = kernel.for_every_size()
        at = next((v for v in numbers if kernel.check(scope="exact", values=v) is Verdict.REFUTED), None)
    except Exception as e:  # a finding of its own
        return {"seed": seed, "kind": "error", "at": repr(e)}
    cpu = round(time.process_time() - start, 1)
    kind = KINDS[verdict, at is not None]
    if kind == WRONG and at is not None and all(map(kernel.assumed_away, refuting(kernel, numbers))):
        kind = "proved, but for numbers that it says it assumes away"
    return {"seed": seed, "kind": kind, "at": at, "cpu": cpu}


def refuting(kernel: OpenKernel, numbers: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
    """The numbers at which a kernel is refuted."""
    return [v for v in numbers if kernel.check(scope="exact", values=dict(v)) is Verdict.REFUTED]


def main(module: str, first: str, jobs: str, seconds: str, out: str) -> None:
    """Judges kernels side by side until the time is over."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + float(seconds)
    with Path(out).open("w") as file, multiprocessing.Pool(int(jobs)) as pool:
        for found in pool.imap_unordered(partial(judged, module), count(int(first))):
            file.write(json.dumps(found) + "\n")
            file.flush()
            counts[found["kind"]] += 1
            if time.monotonic() > end:
                pool.terminate()
                break
    print(module, dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
