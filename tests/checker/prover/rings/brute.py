"""Proofs for every number of stages against exact checks of many sizes.

``python -m tests.checker.prover.rings.brute [PROGRAMS [SEED]]`` checks all good kernels and so many
random mistakes.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product

from syncverify.base.diagnostics import Severity, Verdict
from syncverify.base.source import InputError
from syncverify.checker.prover.rings import prove_stages
from syncverify.checker.prover.rings.linear import OutsideError
from syncverify.checker.prover.rings.search import NotFoundError
from syncverify.driver.ir import check_kernel
from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from tests.checker.prover.rings.kernels import GOOD
from tests.checker.prover.rings.mutate import mutate


def sizes(kernel: Kernel, stages: int) -> Iterator[dict[str, int]]:
    """All sizes up to so many stages, and tiles from 0 to 4 S + 3, that keep the assumptions."""
    small = [p.name for p in kernel.params if p.name != "N"]
    for some in product(range(1, stages + 1), repeat=len(small)):
        values = dict(zip(small, some, strict=True))
        for n in range(4 * max(some) + 4):
            both = {**values, "N": n}
            if all(evaluate(f, both) for f in kernel.assumes):
                yield both


#: Mistakes in a single copy, whatever the number of stages: left to the check of one number of stages.
LOCAL = frozenset({"SV701"})


def refutation(kernel: Kernel, stages: int) -> dict[str, int] | None:
    """The first sizes that an exact check refutes, other than for ``LOCAL`` reasons alone."""
    for values in sizes(kernel, stages):
        report = check_kernel(kernel, values)
        rules = {d.rule for d in report.diagnostics if d.severity is Severity.ERROR}
        if report.verdict is Verdict.REFUTED and not rules <= LOCAL:
            return values
    return None


def symbolic(kernel: Kernel) -> str:
    """``proved``, or why not."""
    try:
        prove_stages(kernel)
    except NotFoundError as e:
        return f"not found: {e}"
    except OutsideError as e:
        return f"outside: {e}"
    return "proved"


def main(programs: int, seed: int) -> int:
    count: Counter[str] = Counter()
    wrong = 0
    rng = random.Random(seed)
    work = [(name, text) for name, text in GOOD.items()] if seed == 0 else []
    work += [(f"{name} mutated", mutate(GOOD[name], rng)) for name in rng.choices(sorted(GOOD), k=programs)]
    start = time.perf_counter()
    for name, text in work:
        try:
            (kernel,) = parse(text, "random.syncir")
            check_kernel(kernel)
        except InputError:
            count["malformed"] += 1
            continue
        found = symbolic(kernel)
        truth = refutation(kernel, (6 if "mutated" not in name else 4) if found == "proved" else 2)
        key = f"{found.partition(':')[0]}, {'refuted' if truth else 'no refutation'}"
        count[key] += 1
        if found == "proved" and truth is not None:
            wrong += 1
            print(f"WRONG: {name} proved, refuted with {truth}\n{text}")
        elif found != "proved" and truth is None:
            print(f"missed: {name}: {found}", flush=True)
    print(dict(count), f"{time.perf_counter() - start:.0f} s")
    return wrong


if __name__ == "__main__":
    numbers = [int(x) for x in sys.argv[1:]]
    sys.exit(main(*(numbers + [200, 0][len(numbers) :])) > 0)
