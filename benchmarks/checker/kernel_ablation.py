"""Each rule of the kernel left out in turn: what wrong protocols do proofs of the right ones then let in?

    python -m benchmarks.checker.kernel_ablation [--seconds 40] [--seed 1] [--only NAME ...] [--out FILE]

A proof of a family is handed in for protocols with one or two random mistakes, and proofs with one datum
changed for right and wrong ones, until something wrong is accepted or the time of a rule is over.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.checker.kernel.ablation import RULES
from tests.checker.kernel.families import FAMILIES
from tests.checker.kernel.sweep import corruptions, proofs, transplanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    good = proofs(
        [x for x in FAMILIES if not x.startswith(("ping-pong", "persistent, two", "epilogue, one"))]
    )
    found: dict[str, dict[str, object]] = {}
    for name in args.only or RULES:
        rule = RULES[name]
        kept = {x: good[x] for x in rule.families} or good
        with ExitStack() as off:
            for patch in rule.off():
                off.enter_context(patch)
            a = transplanted(args.seed, 10**6, kept, args.seconds * 0.7, until=1)
            b = corruptions(args.seed, 10**6, kept, args.seconds * 0.3, until=1) if not a.mistakes else a
        wrong = (a.mistakes or b.mistakes)[:1]
        tried = a.tried + (b.tried if b is not a else 0)
        found[name] = {"tried": tried, "accepted": a.accepted + b.accepted, "wrong": wrong}
        sys.stdout.write(f"{name}: {found[name]}\n")
        sys.stdout.flush()
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
