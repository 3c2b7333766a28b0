"""Kernels with their numbers changed at random: an answer or an InputError, never a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from syncverify.base.source import InputError
from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.text.parser import parse
from syncverify.model.events import Ev, LaneSplit

CORPUS = sorted(Path(__file__).parents[3].glob("corpus/**/*.syncir"))
NUMBERS = [0, 0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 48, 64, 100, 128, 255, 256, 1000, 4096, 65536, 1 << 21]
NAMES = ["tid", "lane", "warp", "block", "rank", "(lane - 3)", "(0 - 5)", "(block * tid)", "(lane >> 2)"]
EVENTS = 500


def changed(text: str, rng: random.Random) -> str:
    """Some numbers after the header replaced by others, or by builtins."""

    def one(m: re.Match[str]) -> str:
        if rng.random() > 0.06:
            return m[0]
        return str(rng.choice(NUMBERS)) if rng.random() < 0.7 else rng.choice(NAMES)

    lines = text.splitlines()
    return "\n".join(
        line
        if "//" in line or "kernel" in line or "arch" in line
        else re.sub(r"(?<![\w.])\d+(?![\w.])", one, line)
        for line in lines
    )


def drive(system: IrSystem, rng: random.Random) -> int:
    """Runs every agent, refining on splits; returns how many events came."""
    for _ in range(64):
        try:
            count = 0
            for agent in system.agents():
                for _ in range(EVENTS):
                    event = agent.step(rng.randrange(2))
                    count += 1
                    if event[0] in (Ev.EXIT, Ev.UNKNOWN):
                        break
                agent.normalize()
        except LaneSplit as split:
            system = system.refined(split)
        else:
            return count
    return 0


@pytest.mark.parametrize("seed", range(30))
def test_changed_numbers(seed: int) -> None:
    events = 0
    for path in random.Random(seed).sample(CORPUS, 4):
        rng = random.Random(f"{seed} {path.name}")
        try:
            for kernel in parse(changed(path.read_text(), rng)):
                for i, system in enumerate(systems(kernel, {})):
                    if isinstance(system, IrSystem):
                        events += drive(system, rng)
                    if i == 1:
                        break
        except InputError as e:
            assert e.message
    assert events > 0  # a seed whose every kernel is rejected would test nothing
