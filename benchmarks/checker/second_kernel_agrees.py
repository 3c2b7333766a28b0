"""Whether the second checker of proofs says what the kernel says, of many proofs and changed proofs.

    python -m benchmarks.checker.second_kernel_agrees [--many 7500] [--seed 1] [--out FILE]

A third are proofs handed in for their protocol or one with mistakes, the others are changed proofs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.checker.kernel.families import FAMILIES
from tests.checker.kernel.sweep import proofs
from tests.checker.kernel.test_second_kernel import compared

#: Cases between two lines of output.
STEP = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--many", type=int, default=7_500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    good = proofs([x for x in FAMILIES if not x.startswith(("ping-pong", "persistent, ", "epilogue, one"))])
    counts: Counter[str] = Counter()
    differ: list[str] = []
    for i in range(0, args.many, STEP):
        some, wrong = compared(args.seed * 100_003 + i, min(STEP, args.many - i), good)
        counts += some
        differ += wrong
        sys.stdout.write(f"{dict(counts)}, {len(differ)} differ\n")
        sys.stdout.flush()
        if args.out:
            args.out.write_text(json.dumps({"counts": dict(counts), "differ": differ}, indent=1) + "\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
