"""Random mistakes in kernels of the IR and of PTX, read as protocols, against exact checks and simulation.

    python -m benchmarks.checker.induction_sweep [--seconds 600] [--seed 1] [--strict] [--out FILE]

The count that must be 0 is that of wrong ones accepted. A quarter of the time is for each of the kernels of
the IR, those whose guards ask about turns, products, and PTX.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.checker.sweep_report import reported
from syncverify.base.diagnostics import Policy
from tests.checker.induction.bases import ASKING, IR, products
from tests.checker.induction.guarded import OF_QUESTIONS
from tests.checker.induction.mutants import OF_IR
from tests.checker.induction.sweep import Counts, swept, swept_ptx


def _plain(c: Counts) -> dict[str, Any]:
    causes = dict(c.causes.most_common(30))
    return {
        "tried": c.tried, "seconds": round(c.seconds), "answers": dict(c.answers), "causes": causes,
        "wrong accepted": c.mistakes,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    policy = Policy.STRICT if args.strict else Policy.PRACTICAL
    part = args.seconds / 4
    found = {
        "ir": swept(args.seed, part, IR, policy, of=(*OF_IR, *OF_QUESTIONS)),
        "questions": swept(args.seed, part, ASKING, policy, of=OF_QUESTIONS),
        "products": swept(args.seed, part, products(), policy),
    }
    if not args.strict:
        found["ptx"] = swept_ptx(args.seed, part)
    return reported(found, _plain, args.out)


if __name__ == "__main__":
    sys.exit(main())
