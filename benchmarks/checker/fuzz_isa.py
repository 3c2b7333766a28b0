"""Mutants of real instructions: does the table take what ptxas refuses, and what does it lack?

    python benchmarks/checker/fuzz_isa.py FOLDER... [--mutants 300] [--seed 0] [--ptxas PATH]

Each mutant is a PTX file with one word changed: a modifier or type left out, replaced, misspelt or added, an
operand left out. ptxas reads it for the file's own architecture, and so does the table of
instructions (syncverify/frontends/ptx/isa), which shares nothing with it. Counted are

    agree      both take it, or both refuse it
    unknown    ptxas takes it, and the front end does not model it: the verdict would be unknown
    lacking    ptxas takes it, the table has no such instruction: an error; safe, but wanted in the table
    accepted   ptxas refuses it and the table takes it: a kernel could be proved that cannot be built

The exit status is 1 if there is one of the last kind.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from syncverify.base.source import InputError
from syncverify.frontends.ptx.isa.match import match
from syncverify.frontends.ptx.isa.rows import table
from syncverify.frontends.ptx.isa.validate import checked
from syncverify.frontends.ptx.syntax.parser import parse

_OPCODE = re.compile(r"(\s*(?:@!?%\w+\s+)?)([a-z]\w*)((?:\.[\w:]+)+)( [^;]*)?;\s*")
_TARGET = re.compile(r"\.target\s+sm_(\w+)")
_WORDS = sorted({w for rows in table().values() for row in rows for s in row.slots for w in s.words})


def mutants(text: str, random_: random.Random, most: int) -> Iterator[tuple[str, str]]:
    """Texts with one instruction changed, and that instruction."""
    lines = text.splitlines()
    places = [k for k, line in enumerate(lines) if _OPCODE.fullmatch(line)]
    for k in random_.sample(places, min(most, len(places))):
        m = _OPCODE.fullmatch(lines[k])
        assert m is not None
        guard, op, mods, operands = m[1], m[2], m[3][1:].split("."), m[4] or ""
        at = random_.randrange(len(mods))
        match random_.randrange(6):
            case 0:
                del mods[at]
            case 1 | 2:
                mods[at] = random_.choice(_words_of(op))
            case 3:
                mods[at] = mods[at][:-1] + random_.choice("abxs")
            case 4:
                mods.insert(at, random_.choice(_words_of(op)))
            case 5 if "," in operands and "{" not in operands:
                operands = operands[: operands.rindex(",")]
        line = f"{guard}{'.'.join((op, *mods))}{operands};"
        if line != lines[k]:
            yield "\n".join([*lines[:k], line, *lines[k + 1 :]]), line.strip()


def _words_of(op: str) -> list[str]:
    return sorted({w for row in table().get(op, ()) for s in row.slots for w in s.words}) or _WORDS


def refused_by_ptxas(text: str, ptxas: str) -> str | None:
    """What ptxas says against a file; None if it reads it."""
    found = _TARGET.search(text)
    arch = found[1] if found else "90a"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.ptx")
        path.write_text(text)
        command = [ptxas, f"-arch=compute_{arch}", str(path), "-o", str(Path(folder, "a.out"))]
        done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stdout + done.stderr).split("\n")[0]


def refused_by_table(text: str) -> tuple[str | None, bool]:
    """What the table says against a file, and whether it has an instruction that is not modelled."""
    try:
        valid = checked(parse(text, "mutant.ptx"))
    except InputError as e:
        return e.message, False
    wrong = next(iter(valid.wrong.values()), None)
    if wrong is not None:
        return wrong.message, False
    forms = (match(i, f.registers) for f in valid.module.functions for i in f.body)
    return None, any(getattr(form, "unmodelled", None) for form in forms)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--mutants", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--ptxas", default="ptxas")
    given = arguments.parse_args()
    random_ = random.Random(given.seed)
    files = [p for folder in given.folders for p in sorted(folder.rglob("*.ptx"))]
    counts: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    while sum(counts.values()) < given.mutants:
        text = random_.choice(files).read_text()
        if refused_by_ptxas(text, given.ptxas) is not None:
            counts["base refused"] += 1
            continue
        for mutant, line in mutants(text, random_, 8):
            theirs, (mine, unmodelled) = refused_by_ptxas(mutant, given.ptxas), refused_by_table(mutant)
            if (theirs is None) == (mine is None):
                kind = "unknown" if unmodelled and theirs is None else "agree"
            else:
                kind = "lacking" if theirs is None else "unknown" if unmodelled else "accepted"
            counts[kind] += 1
            if kind in ("lacking", "accepted"):
                shown[f"{kind}: {line[:110]}  [{(theirs or mine or '')[-90:]}]"] += 1
    for line in shown:
        print(line)
    print(dict(counts))
    return int(counts["accepted"] > 0)


if __name__ == "__main__":
    sys.exit(main())
