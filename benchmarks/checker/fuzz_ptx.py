"""Mutated PTX files: what the tool makes of damaged input. Nothing but InputError or a result is right.

    python benchmarks/checker/fuzz_ptx.py [DIR ...] [--count 10000] [--seed 1] [--limit 20] [--check]
    python benchmarks/checker/fuzz_ptx.py --check --seconds 600 --largest 30000 -o results/fuzz_ptx.json \
        corpus REAL

Each file of the folders gives its share of mutants: bytes flipped, lines dropped, swapped, duplicated, or a
token put in another's place. With ``--check`` each mutant that parses is also checked, with the launch facts
beside its file. Each mutant runs in a process of its own, with a limit on its processor time and its memory.
Prints the outcomes, and for each crash or overrun its file and seed. With ``-o`` the outcomes are added to
those of the file, and a run goes on after the last mutant there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syncverify.base.source import InputError
from syncverify.frontends.ptx.syntax.parser import decode, parse

CORPUS = Path(__file__).parents[2] / "corpus" / "ptx"
MEMORY = 4 << 30
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


def judged(data: bytes, path: Path, scratch: Path | None, limit: float) -> tuple[str, str]:
    """Its outcome in a child process, and what a crash wrote; with a folder it is also checked."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            said = [read(data, str(path)), ""]
            if scratch is not None and said[0] == "parsed":
                said[0] = check(data, scratch, launch_file(path))
        except BaseException:
            said = ["crash", traceback.format_exc(limit=-6)]
        with os.fdopen(writer, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if text:
        outcome, told = json.loads(text)
        return outcome, told
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return "overrun", ""
    return "crash", f"status {status}"


def sources(roots: list[Path], largest: int) -> list[Path]:
    """The PTX files of some folders up to a size in bytes; environments and caches of generators are none."""
    found = {p for root in roots for p in root.rglob("*.ptx") if "venvs" not in p.parts}
    return sorted(p for p in found if p.stat().st_size <= largest)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("dirs", nargs="*", type=Path, default=[CORPUS])
    options.add_argument("--count", type=int, default=10_000, help="mutants in all")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--limit", type=float, default=20.0, help="processor seconds for one mutant")
    options.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    options.add_argument("--largest", type=int, default=1 << 30, help="skip files of more bytes")
    options.add_argument("--check", action="store_true", help="also check what parses")
    options.add_argument("-o", "--output", type=Path, help="outcomes as JSON, added to those there")
    args = options.parse_args()
    files = sources(args.dirs, args.largest)
    if not files:
        print("no .ptx file in", *args.dirs)
        return 2
    if args.check:
        for module in ("cli.check", "driver.ptx.check", "driver.ir_advice"):
            importlib.import_module(f"syncverify.{module}")
    done = json.loads(args.output.read_text()) if args.output and args.output.exists() else {}
    outcomes = Counter(done.get("outcomes", {}))
    bad: list[list[str]] = done.get("bad", [])
    slowest = tuple(done.get("slowest", (0.0, "")))
    cpu = float(done.get("cpu", 0.0))
    start = time.monotonic()
    first = outcomes.total()
    with tempfile.TemporaryDirectory() as folder:
        for n in range(first, args.count):
            if time.monotonic() - start > args.seconds:
                break
            path, seed = files[n % len(files)], args.seed * 1_000_003 + n
            before = _children()
            scratch = Path(folder) if args.check else None
            outcome, told = judged(mutant(path.read_bytes(), seed), path, scratch, args.limit)
            took = _children() - before
            if outcome in ("crash", "overrun"):
                bad.append([outcome, f"{path.parent.name}/{path.name}", str(seed), told])
                print(f"{outcome}: {path} seed {seed}\n{told}", flush=True)
            outcomes[outcome] += 1
            cpu += took
            slowest = max(slowest, (round(took, 2), f"{path.parent.name}/{path.name} seed {seed}"))
    made = {
        "mutants": outcomes.total(),
        "files": len(files),
        "limit": args.limit,
        "outcomes": dict(sorted(outcomes.items())),
        "cpu": round(cpu, 1),
        "slowest": slowest,
        "bad": bad,
    }
    if args.output:
        args.output.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps({k: v for k, v in made.items() if k != "bad"}, indent=1))
    return 1 if bad else 0


def _children() -> float:
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
