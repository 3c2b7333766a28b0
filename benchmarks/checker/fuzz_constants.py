"""Constant expressions and initial values: what ptxas puts into memory, beside what is read here.

    python benchmarks/checker/fuzz_constants.py [--count 2000] [--seed 0] [--ptxas PATH]

Each drawn expression initializes a word of 64 bits; its bytes are read from the cubin. So are drawn arrays of
numbers in lists. ``wrong``: another value here, or, where nothing was read, a value by the rules for ptxas
that is not the cubin's. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import random
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from syncverify.frontends.ptx.syntax.lexer import Malformed, constant
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.syntax.constant_trees import Tree, Undefined, drawn

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"
_NO_BITS = 8  # a section without bytes: zeros
_WIDTHS = {"u8": 1, "s16": 2, "b32": 4, "u64": 8}


def assembled(declarations: list[str], ptxas: str) -> dict[str, bytes] | str:
    """The bytes of each variable in the cubin, or what ptxas says against the file."""
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        text.write_text(HEAD + "\n".join(declarations) + "\n.visible .entry k() { ret; }\n")
        made = subprocess.run(
            [ptxas, "-arch=sm_90a", text, "-o", cubin], capture_output=True, text=True, check=False
        )
        return made.stderr + made.stdout if made.returncode else variables(cubin.read_bytes())


def variables(elf: bytes) -> dict[str, bytes]:
    """The variables ``v...`` of an ELF file, by its symbols."""
    found = sections(elf)
    symbols = next(s for name, s in found if name == ".symtab")
    out = {}
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        called, _, _, section, value, length = struct.unpack_from("<IBBHQQ", elf, at)
        known = _text(elf, found[symbols[6]][1][4] + called)
        if known.startswith("v") and section < len(found):
            s = found[section][1]
            out[known] = bytes(length) if s[1] == _NO_BITS else elf[s[4] + value : s[4] + value + length]
    return out


def sections(elf: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """The sections of an ELF file: each name, and what the table says (offset and size at 4 and 5)."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    found = [struct.unpack_from("<IIQQQQIIQQ", elf, start + n * size) for n in range(count)]
    return [(_text(elf, found[names][4] + s[0]), s) for s in found]


def _text(elf: bytes, at: int) -> str:
    return elf[at : elf.index(0, at)].decode()


def taken(declarations: dict[int, str], ptxas: str, found: Counter[str]) -> dict[str, bytes]:
    """The bytes of the declarations that ptxas takes; the others are counted."""
    while isinstance(said := assembled(list(declarations.values()), ptxas), str):
        lines = {int(n) - 1 - HEAD.count("\n") for n in re.findall(r"line (\d+);", said)}
        if not lines:
            raise SystemExit(f"ptxas: {said}")
        for n in [list(declarations)[at] for at in sorted(lines)]:
            found["refused by ptxas"] += 1
            del declarations[n]
    return said


def expressions(count: int, draw: random.Random, ptxas: str) -> Counter[str]:
    """Compares the values of drawn expressions."""
    found: Counter[str] = Counter()
    trees: dict[int, Tree] = {}
    for n in range(count):
        tree = drawn(draw, draw.randrange(1, 4))
        try:
            tree.value(True), tree.value(False)
        except Undefined:
            found["without a value"] += 1
        else:
            trees[n] = tree
    bytes_of = taken({n: f".visible .global .u64 v{n} = {t.text()};" for n, t in trees.items()}, ptxas, found)
    for n, tree in trees.items():
        if f"v{n}" not in bytes_of:
            continue
        value = int.from_bytes(bytes_of[f"v{n}"], "little")
        try:
            here = constant(tree.text())
        except Malformed:
            here, kind = tree.value(True).to(True), "in dispute"
        else:
            kind = "same"
        if isinstance(here, tuple) or here % 2**64 != value:
            kind = "wrong"
            print(f"{tree.text()}: ptxas {value:#x}, here {here}")
        found[kind] += 1
    return found


def array(draw: random.Random, n: int) -> str:
    """An array of one to three dimensions, with all or fewer values."""
    sizes = [draw.randrange(1, 4) for _ in range(draw.randrange(1, 4))]

    def rows(left: list[int]) -> str:
        if not left:
            return str(draw.choice((0, 1, -1, 255, 300, 0x12345678)))
        many = left[0] if draw.random() < 0.7 else draw.randrange(1, left[0] + 1)
        return "{" + ", ".join(rows(left[1:]) for _ in range(many)) + "}"

    first = "" if draw.random() < 0.2 else sizes[0]
    shape = f"[{first}]" + "".join(f"[{s}]" for s in sizes[1:])
    return f".visible .global .{draw.choice(list(_WIDTHS))} v{n}{shape} = {rows(sizes)};"


def arrays(count: int, draw: random.Random, ptxas: str) -> Counter[str]:
    """Compares the bytes of drawn arrays."""
    found: Counter[str] = Counter()
    declared = {n: array(draw, n) for n in range(count)}
    bytes_of = taken(declared, ptxas, found)
    for text in declared.values():
        (v,) = parse(HEAD + text).variables
        known = v.initial is not None and v.initial.data is not None
        kind = "same" if known and v.init == bytes_of[v.name] else "wrong" if known else "rows are shorter"
        if v.size != len(bytes_of[v.name]):
            kind = "wrong"
        if kind == "wrong":
            print(f"{text} ptxas {bytes_of[v.name].hex()}, here {v.size} bytes, {v.init and v.init.hex()}")
        found[kind] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ptxas", default="ptxas")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    of_expressions = expressions(args.count, draw, args.ptxas)
    of_arrays = arrays(args.count // 4, draw, args.ptxas)
    print("expressions", dict(of_expressions))
    print("arrays", dict(of_arrays))
    sys.exit(of_expressions["wrong"] + of_arrays["wrong"] > 0)


if __name__ == "__main__":
    main()
