"""Where shared variables lie: in the code of ptxas, in the front end, and in the second reader.

    python benchmarks/checker/fuzz_layout.py [--count 300] [--seed 0] [--ptxas PATH]

Each module has drawn variables: a kernel's own, the module's, arrays of dynamic memory. The kernel stores to
some of them by register addresses. In the code of ptxas each place but the first is a constant that is added.
Compared are the sets of places. The exit status is 1 if two differ.
"""

from __future__ import annotations

import argparse
import random
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.checker.fuzz_constants import HEAD, sections
from syncverify.frontends.ptx.exec.tables import SHARED_BASE, layout
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch
from syncverify.simulate.ptx.loading import load

#: Low bits of instructions that add or move a constant, which stands in their second word (sm_90).
_CONSTANTS = frozenset({0x810, 0x835, 0x836, 0x882, 0x890})


def module(draw: random.Random) -> str:
    """A file whose kernel stores to drawn variables."""

    def variable(n: int, extern: bool) -> str:
        size = "" if extern else draw.choice((1, 3, 4, 8, 12, 33, 64, 100, 256))
        return f"{'.extern ' * extern}.shared .align {1 << draw.randrange(9)} .b8 v{n}[{size}];"

    own = [variable(n, False) for n in range(draw.randrange(4))]
    others = [variable(4 + n, n > 3) for n in range(draw.randrange(7))]
    draw.shuffle(others)
    names = [text.partition(".b8 ")[2].partition("[")[0] for text in own + others]
    used = draw.sample(names, draw.randrange(len(names) + 1))
    stores = "\n".join(
        f"mov.u32 %r{n}, {name}; add.u32 %r{n}, %r{n}, %r1; st.volatile.shared.u8 [%r{n}], %r1;"
        for n, name in enumerate(used, 2)
    )
    body = f".reg .b32 %r<20>; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2;\n{stores}\nret;"
    return f"{HEAD}{' '.join(others)}\n.visible .entry k() {{ {' '.join(own)} {body} }}\n"


def assembled(text: str, ptxas: str) -> set[int]:
    """The constants that the code of ptxas adds to the first place."""
    with tempfile.TemporaryDirectory() as folder:
        path, cubin = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        path.write_text(text)
        subprocess.run([ptxas, "-arch=sm_90a", path, "-o", cubin], capture_output=True, check=True)
        elf = cubin.read_bytes()
    start, size = next((s[4], s[5]) for name, s in sections(elf) if name == ".text.k")
    words = [struct.unpack_from("<Q", elf, at)[0] for at in range(start, start + size, 16)]
    return {w >> 32 for w in words if w & 0xFFF in _CONSTANTS}


def places(text: str) -> tuple[set[int], set[int]]:
    """Those of the front end and of the second reader, but the first."""
    parsed = parse(text)
    ours = {at - SHARED_BASE for at in layout(parsed, parsed.entries[0], 0).shared.values()}
    loaded = load(parsed, "k", Launch())
    fills = (what for _, kind, what in loaded.entry.fills if kind == "address")
    theirs = {at for (space, at), _, _ in fills if space == "shared"}
    return ours - {0}, theirs - {0}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ptxas", default="ptxas")
    args = parser.parse_args()
    found: Counter[str] = Counter()
    for seed in range(args.seed, args.seed + args.count):
        text = module(random.Random(seed))
        code = assembled(text, args.ptxas)
        ours, theirs = places(text)
        # the first place itself is the constant SHARED_BASE
        same = ours == theirs == (code - {SHARED_BASE}) | ({SHARED_BASE} & ours)
        found["same" if same else "different"] += 1
        if not same:
            print(f"{text}\nptxas {sorted(code)}, front end {sorted(ours)}, second reader {sorted(theirs)}")
    print(dict(found))
    sys.exit(found["different"] > 0)


if __name__ == "__main__":
    main()
