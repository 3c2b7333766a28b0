"""Mutated PTX files: what the tool makes of damaged input. Nothing but InputError or a result is right.

    python benchmarks/fuzz_ptx.py [DIR ...] [--count 10000] [--seed 1] [--limit 20] [--check]

Each file of the folders gives its share of mutants: bytes flipped, lines dropped, swapped, duplicated, or a
token put in another's place. With ``--check`` each mutant that parses is also checked, with
the launch facts beside its file. Prints the outcomes, and for each crash or overrun its file and seed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syncverify.frontends.ptx.parser import decode, parse
from syncverify.source import InputError

CORPUS = Path.home() / ".cache" / "syncverify-corpus" / "ptx"
_TOKEN = re.compile(rb"[%$\w.]+|[^\s\w]")


class Overrun(BaseException):
    """The time limit of one file; no handler for exceptions catches it."""


def flip(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, mostly to other printable ones."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] = rng.randrange(32, 127) if rng.random() < 0.8 else rng.randrange(256)
    return bytes(out)


def drop(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    del lines[at : at + rng.choice((1, 1, 1, 3, 20))]
    return b"".join(lines)


def swap(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    a = rng.randrange(len(lines))
    b = min(a + 1, len(lines) - 1) if rng.random() < 0.5 else rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def duplicate(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), lines[rng.randrange(len(lines))])
    return b"".join(lines)


def replace_token(data: bytes, rng: random.Random) -> bytes:
    """One token replaced by another one of the same file."""
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return data
    gone, new = rng.choice(tokens), rng.choice(tokens)
    return data[: gone.start()] + new[0] + data[gone.end() :]


MUTATIONS = (flip, drop, swap, duplicate, replace_token)


def mutant(data: bytes, seed: int) -> bytes:
    """The mutant of a file for a seed: one to three mutations."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if data:
            data = rng.choice(MUTATIONS)(data, rng)
    return data


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises Overrun in the body after that many seconds of processor time."""

    def overrun(*_: Any) -> None:
        raise Overrun

    before = signal.signal(signal.SIGPROF, overrun)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def read(data: bytes, path: str) -> str:
    """The outcome of parsing: ``parsed`` or ``malformed``; anything else escapes."""
    try:
        parse(decode(data, path), path)
    except InputError as e:
        if not str(e):
            raise ValueError("an InputError without a message") from e
        return "malformed"
    return "parsed"


def launch_file(path: Path) -> list[str]:
    """The option that names a file's launch facts, if they lie beside it."""
    for beside in (Path(f"{path}.launch.toml"), path.with_suffix(".launch.toml")):
        if beside.exists():
            return ["--launch", str(beside)]
    return []


def check(data: bytes, folder: Path, options: list[str]) -> str:
    """The exit status of ``syncverify check`` on the mutant, run in this process."""
    from syncverify.cli.main import run

    path = folder / "mutant.ptx"
    path.write_bytes(data)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        status = run(["check", str(path), *options])
    if status not in (0, 1, 2, 3) or "internal error" in err.getvalue():
        raise RuntimeError(err.getvalue())
    return f"exit {status}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("dirs", nargs="*", type=Path, default=[CORPUS])
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--limit", type=float, default=20.0, help="processor seconds for one mutant")
    options.add_argument("--largest", type=int, default=1 << 30, help="skip files of more bytes")
    options.add_argument("--check", action="store_true", help="also check what parses")
    args = options.parse_args()
    found = {p for root in args.dirs for p in root.rglob("*.ptx")}
    files = sorted(p for p in found if p.stat().st_size <= args.largest)
    if not files:
        print("no .ptx file in", *args.dirs)
        return 2
    outcomes: Counter[str] = Counter()
    slowest = (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        for n in range(args.count):
            path, seed = files[n % len(files)], args.seed * 1_000_003 + n
            data = mutant(path.read_bytes(), seed)
            start = time.process_time()
            try:
                with time_limit(args.limit):
                    outcome = read(data, str(path))
                    if args.check and outcome == "parsed":
                        outcome = check(data, Path(folder), launch_file(path))
            except Overrun:
                outcome = "overrun"
                print(f"overrun: {path} seed {seed}")
            except Exception:
                outcome = "crash"
                print(f"crash: {path} seed {seed}\n{traceback.format_exc(limit=-4)}")
            outcomes[outcome] += 1
            slowest = max(slowest, (time.process_time() - start, f"{path} seed {seed}"))
    print(f"{args.count} mutants of {len(files)} files:", dict(sorted(outcomes.items())))
    print(f"slowest: {slowest[0]:.2f} s, {slowest[1]}")
    return 1 if outcomes["crash"] or outcomes["overrun"] else 0


if __name__ == "__main__":
    sys.exit(main())
