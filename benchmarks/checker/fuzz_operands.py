"""Instructions of every row of the table with other operands: does the table take what ptxas refuses?

    python benchmarks/checker/fuzz_operands.py [--mutants 3000] [--seed 0] [--ptxas PATH] [--version 9.0]

Each base is an instruction that the table describes and ptxas takes. Each mutant has one operand replaced: by
a register of another type, a constant, a vector of another length, an address, or by nothing. Counted as in
fuzz_isa.py, which changes modifiers; and as

    judged     ptxas refuses it, the table takes it, and the kernel is not proved: a rule of the model has it

The exit status is 1 if a kernel that ptxas refuses is proved.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.checker.fuzz_isa import refused_by_ptxas, refused_by_table
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.isa.samples import REGISTERS, all_rows, choices, text

_TYPED = (
    ".reg .u16 %us<9>; .reg .s16 %ss<9>; .reg .u32 %u<9>; .reg .s32 %s<9>; .reg .u64 %ul<9>;"
    " .reg .s64 %sl<9>; .reg .f16 %hf<9>; .reg .f16x2 %hx<9>; .shared .align 128 .b8 sm[1024];"
)
_OTHERS = (
    "%p1 !%p2 %c1 %h1 %r1 %rd1 %q1 %f1 %d1 %us1 %ss1 %u1 %s1 %ul1 %sl1 %hf1 %hx1 0 1 -1 7 0x100000000 "
    "0f3f800000 0d3ff0000000000000 sm [sm] [%r1] [%rd1] [%rd1+4] _ %tid.x %clock64 %r1|%p1 {%r1} {%r1,%r2} "
    "{%f1,%f2,%f3,%f4}"
).split()
_TARGETS = ("90a", "100a", "120a")


def module(line: str, target: str, version: str) -> str:
    """A file with one kernel of one instruction."""
    head = f".version {version}\n.target sm_{target}\n.address_size 64\n"
    return f"{head}.visible .entry k()\n{{\n{REGISTERS}\n{_TYPED}\n{line}\nL: ret;\n}}\n"


def operands(line: str) -> list[str]:
    """The operands of an instruction, each as it is written."""
    _, _, rest = line.rstrip(";").partition(" ")
    return [o.strip() for o in re.split(r",(?![^{\[]*[}\]])", rest) if o.strip()]


def mutants(line: str, random_: random.Random, most: int) -> Iterator[str]:
    """The instruction with one operand replaced or left out."""
    name = line.split(" ", 1)[0].rstrip(";")
    given = operands(line)
    for _ in range(most if given else 0):
        at = random_.randrange(len(given))
        put = [] if random_.random() < 0.1 else [random_.choice(_OTHERS)]
        yield f"{name} {', '.join([*given[:at], *put, *given[at + 1 :]])};"


def bases(ptxas: str, version: str, random_: random.Random) -> Iterator[tuple[str, str]]:
    """Instructions that ptxas takes, each with a target that has it, drawn again and again."""
    rows = all_rows()
    while True:
        row = random_.choice(rows)
        words = random_.choice(list(choices(row, 4)) or [()])
        line = text(row, words, random_.random() < 0.5)
        if line is None:
            continue
        for target in _TARGETS:
            if refused_by_ptxas(module(line, target, version), ptxas) is None:
                yield line, target
                break


def proved(source: str) -> bool:
    """Whether the checker proves the file's kernel, as one block of a warpgroup."""
    facts = "[kernel.k]\nblock = 128\ngrid = 1\n"
    with tempfile.TemporaryDirectory() as folder:
        path, launch = Path(folder, "mutant.ptx"), Path(folder, "mutant.toml")
        path.write_text(source)
        launch.write_text(facts)
        try:
            reports = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL)
        except InputError:
            return False
    return any(r.verdict is Verdict.PROVED for r in reports)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--mutants", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--ptxas", default="ptxas")
    arguments.add_argument("--version", default="8.4", help="of PTX, that this ptxas knows")
    given = arguments.parse_args()
    random_ = random.Random(given.seed)
    counts: Counter[str] = Counter()
    for line, target in bases(given.ptxas, given.version, random_):
        for mutant in mutants(line, random_, 6):
            source = module(mutant, target, given.version)
            theirs, (mine, unmodelled) = refused_by_ptxas(source, given.ptxas), refused_by_table(source)
            agree = (theirs is None) == (mine is None)
            kind = "agree" if agree else "lacking" if theirs is None else "accepted"
            if kind == "accepted":
                kind = "unknown" if unmodelled else "accepted" if proved(source) else "judged"
            counts[kind] += 1
            if kind in ("lacking", "accepted"):
                print(f"{kind}: {mutant[:110]}  [{(theirs or mine or '')[-90:]}]", flush=True)
        if sum(counts.values()) >= given.mutants:
            break
    print(dict(counts))
    return int(counts["accepted"] > 0)


if __name__ == "__main__":
    sys.exit(main())
