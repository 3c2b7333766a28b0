"""Reading PTX: lines a second and milliseconds a file, by folder; files that do not parse are listed.

    python benchmarks/checker/bench_ptx_parse.py [DIR ...] [--repeat 3]

The time of a file is its best of the repeats, without reading it from disk.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

from syncverify.base.source import InputError
from syncverify.frontends.ptx.syntax.parser import decode, parse

CORPUS = Path.home() / ".cache" / "syncverify-corpus" / "ptx"


def seconds(text: str, path: str, repeat: int) -> float:
    """The best processor time of parsing a text."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        parse(text, path)
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("dirs", nargs="*", type=Path, default=[CORPUS])
    options.add_argument("--repeat", type=int, default=3)
    args = options.parse_args()
    folders: dict[str, list[tuple[int, float, Path]]] = {}
    failed = 0
    for root in args.dirs:
        for path in sorted(root.rglob("*.ptx")):
            try:
                text = decode(path.read_bytes(), str(path))
                took = seconds(text, str(path), args.repeat)
            except InputError as e:
                print(f"does not parse: {e}")
                failed += 1
                continue
            folder = path.relative_to(root.parent).parts[-2 if path.parent == root else 1]
            folders.setdefault(folder, []).append((text.count("\n") + 1, took, path))
    print(f"{'folder':24} {'files':>6} {'lines':>9} {'lines/s':>9} {'median ms':>10} {'max ms':>8}")
    for name, rows in [*sorted(folders.items()), ("all", [r for f in folders.values() for r in f])]:
        if rows:
            lines, times = sum(r[0] for r in rows), [r[1] for r in rows]
            rate = lines / max(sum(times), 1e-9)
            middle, most = 1e3 * median(times), 1e3 * max(times)
            print(f"{name:24} {len(rows):6} {lines:9} {rate:9.0f} {middle:10.1f} {most:8.1f}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
