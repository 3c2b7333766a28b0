"""What ``make demo`` shows: a fusion proved and run; a broken ring refuted, replayed, mended and proved."""

from __future__ import annotations

import shlex
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import click

from syncverify.cli.main import run

#: A producer that starts with the wrong parity, and the same ring mended.
_RULE = "SV210"


def demo(directory: Path) -> bool:
    """Runs the commands in order; true if each ends as it should."""
    for kind in ("bad", "good"):
        source = files("syncverify.examples") / "rules" / f"{_RULE}.{kind}.syncir"
        (directory / f"ring.{kind}.syncir").write_text(source.read_text("utf-8"))
    bad, good = (str(directory / f"ring.{kind}.syncir") for kind in ("bad", "good"))
    witness = str(directory / "ring.json")
    steps = [
        ("a fusion: compiled, proved, run, compared", 0, ["run", "syncverify.examples.fusions:mul"]),
        ("a ring that hangs", 1, ["check", bad, "--witness-dir", str(directory)]),
        ("its hang, replayed by the simulator", 0, ["replay", "--quiet", witness]),
        ("the ring mended", 0, ["check", good]),
    ]
    return all(_step(*step) for step in steps)


def _step(title: str, expected: int, args: list[str]) -> bool:
    click.echo(f"\n# {title}\n$ syncverify {shlex.join(args)}")
    status = run(args)
    click.echo(f"(exit status {status})")
    if status != expected:
        click.echo(f"expected exit status {expected}", err=True)
    return status == expected


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(0 if demo(Path(temporary)) else 1)
