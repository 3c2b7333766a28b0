"""Random mistakes in protocols and in proofs, against exhaustive exploration of small sizes.

    python -m benchmarks.checker.kernel_sweep [--seconds 600] [--seed 1] [--planted 10000] [--out FILE]

Each accepted protocol is explored at up to 40 sizes. The count that must be 0 is that of wrong ones accepted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.checker.sweep_report import reported
from tests.checker.kernel.families import FAMILIES
from tests.checker.kernel.sweep import Counts, corruptions, planted, proofs, reproved, transplanted


def _plain(c: Counts) -> dict[str, Any]:
    return {"tried": c.tried, "accepted": c.accepted, "wrong accepted": c.mistakes}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--planted", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    good = proofs([x for x in FAMILIES if not x.startswith("ping-pong")])
    third = args.seconds * 0.3
    many = 10**6
    found = {
        "proof of the right protocol for a mutant": transplanted(args.seed, many, good, third),
        "proof with one datum changed": corruptions(args.seed, many, good, third),
        "protocols that one rule keeps out": planted(args.seed, args.planted, args.seconds * 0.1),
        "mutants proved anew": reproved(args.seed, many, third),
    }
    return reported(found, _plain, args.out)


if __name__ == "__main__":
    sys.exit(main())
