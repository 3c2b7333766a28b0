"""The rows of the table of the ISA that the second reader refuses, each with an instruction and the reason.

    python benchmarks/checker/reader_rows.py [--target 90a]

A row with forms that it executes and others that it refuses is listed by the first that it refuses.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from syncverify.frontends.ptx.isa.targets import Target
from tests.simulate.ptx.isa_rows import refused


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="90a")
    name = parser.parse_args().target
    target = Target(int(name.rstrip("af")), name.lstrip("0123456789"))
    rows = list(refused(target))
    for row, line, why in rows:
        print(f"{row.name:45} {line}\n{'':45} {why}")
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main()
