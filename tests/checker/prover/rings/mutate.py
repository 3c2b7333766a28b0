"""Random mistakes in the text of a kernel: lines dropped, swapped, doubled; numbers and slots changed."""

from __future__ import annotations

import random
import re

_FIXED = (
    "kernel",
    "launch",
    "param",
    "assume",
    "tensor",
    "shared",
    "role",
    "elect",
    "let ",
    "}",
    "bulk.commit",
)


def mutate(text: str, rng: random.Random) -> str:
    """The kernel with one or two mistakes; some change nothing that matters."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 1, 2))):
        lines = rng.choice((_drop, _swap, _slot, _slot, _number, _number, _bound, _move))(lines, rng)
    return "\n".join(lines)


def _body(lines: list[str]) -> list[int]:
    """Lines that are statements without a block."""
    return [
        i for i, x in enumerate(lines)
        if x.strip() and not x.strip().startswith(_FIXED) and "{" not in x and "mbarrier " not in x
    ]  # fmt: skip


def _drop(lines: list[str], rng: random.Random) -> list[str]:
    at = rng.choice(_body(lines))
    return lines[:at] + lines[at + 1 :]


def _swap(lines: list[str], rng: random.Random) -> list[str]:
    body = [i for i in _body(lines) if i + 1 in _body(lines)]
    if not body:
        return lines
    at = rng.choice(body)
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def _move(lines: list[str], rng: random.Random) -> list[str]:
    """One statement somewhere else, perhaps twice."""
    body = _body(lines)
    at, to = rng.choice(body), rng.choice(body)
    rest = lines if rng.random() < 0.2 else lines[:at] + lines[at + 1 :]
    return [*rest[:to], lines[at], *rest[to:]]


def _slot(lines: list[str], rng: random.Random) -> list[str]:
    """Another slot or parity in one place."""
    found = [(i, m) for i, x in enumerate(lines) for m in re.finditer(r"\bi (%|//) ", x)]
    if not found:
        return lines
    i, m = rng.choice(found)
    other = rng.choice(("(i + 1)", "(i + S)", "(i + 2)", "(i + S - 1)", "(i - 1)"))
    return [*lines[:i], lines[i][: m.start()] + other + lines[i][m.start() + 1 :], *lines[i + 1 :]]


def _number(lines: list[str], rng: random.Random) -> list[str]:
    """A number one more or less, or twice as much."""
    found = [
        (i, m) for i, x in enumerate(lines) for m in re.finditer(r"\b\d+\b", x)
        if not x.strip().startswith(("launch", "tensor", "role", "param", "shared", "st.global"))
    ]  # fmt: skip
    i, m = rng.choice(found)
    value = int(m.group())
    new = rng.choice((value + 1, max(value - 1, 0), value * 2))
    return [*lines[:i], lines[i][: m.start()] + str(new) + lines[i][m.end() :], *lines[i + 1 :]]


def _bound(lines: list[str], rng: random.Random) -> list[str]:
    found = [i for i, x in enumerate(lines) if "0..N" in x or "0..S" in x]
    if not found:
        return lines
    i = rng.choice(found)
    new = rng.choice(("1..N", "0..(N + 1)", "0..(N - 1)", "0..(2 * N)"))
    if "0..S" in lines[i]:
        new = rng.choice(("1..S", "0..(S + 1)", "0..(S - 1)"))
    return [*lines[:i], re.sub(r"0\.\.[NS]", new, lines[i]), *lines[i + 1 :]]
