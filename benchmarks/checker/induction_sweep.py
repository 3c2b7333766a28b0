"""Random mistakes in kernels of the IR and of PTX, read as protocols, against exact checks and simulation.

    python -m benchmarks.checker.induction_sweep [--seconds 600] [--seed 1] [--strict] [--out FILE]

The count that must be 0 is that of wrong ones accepted. A third of the time is for PTX, and one for products.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.checker.sweep_report import reported
from syncverify.base.diagnostics import Policy
from tests.checker.induction.bases import IR, products
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
    third = args.seconds / 3
    found = {
        "ir": swept(args.seed, third, IR, policy),
        "products": swept(args.seed, third, products(), policy),
    }
    if not args.strict:
        found["ptx"] = swept_ptx(args.seed, third)
    return reported(found, _plain, args.out)


if __name__ == "__main__":
    sys.exit(main())
