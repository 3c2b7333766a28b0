"""What was proved of a kernel for every number of stages, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncverify.base.source import InputError
from syncverify.checker.prover.rings.linear import Lin, form, integer, plain_form
from syncverify.checker.prover.rings.program import Ring
from syncverify.checker.prover.rings.ranks import Key
from syncverify.checker.prover.rings.rules import Step, Turns

Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """``paths``: for each obligation, in the order of ``rules.obligations``, the paths that cover it.

    None represents one whose alternative is taken. ``ranks``: of every operation, and of its completion.
    """

    turns: Turns
    ranks: dict[Key, Lin]
    paths: tuple[tuple[Path, ...] | None, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "turns": {
                "shift": [[list(k), v] for k, v in self.turns.shift.items()],
                "lag": [[list(k), v] for k, v in self.turns.lag.items()],
                "end": [[list(k), plain_form(v)] for k, v in self.turns.end.items()],
            },
            "ranks": [[list(k), plain_form(v)] for k, v in self.ranks.items()],
            "paths": [
                None
                if some is None
                else [[[s.agent, s.op, s.half, plain_form(s.at)] for s in path] for path in some]
                for some in self.paths
            ],
        }


def from_dict(data: Mapping[str, Any]) -> Certificate:
    """The certificate that ``to_dict`` wrote; InputError for anything else."""
    try:
        t = data["turns"]
        turns = Turns(
            {_statement(k): integer(v) for k, v in t["shift"]},
            {_statement(k): integer(v) for k, v in t["lag"]},
            {_ring(k): form(v) for k, v in t["end"]},
        )
        ranks = {_key(k): form(v) for k, v in data["ranks"]}
        paths = tuple(
            None if some is None else tuple(tuple(_step(s) for s in path) for path in some)
            for some in data["paths"]
        )
    except (KeyError, TypeError, ValueError) as e:
        raise InputError(f"malformed certificate: {e}") from e
    return Certificate(turns, ranks, paths)


def _statement(k: Sequence[Any]) -> tuple[int, ...]:
    return tuple(integer(x) for x in k)


def _ring(k: Sequence[Any]) -> Ring:
    name, element = k
    return str(name), None if element is None else integer(element)


def _key(k: Sequence[Any]) -> Key:
    kind, part, place, done = k
    if type(done) is not bool:
        raise ValueError(f"{done!r} is no truth value")
    return integer(kind), integer(part), integer(place), done


def _step(s: Sequence[Any]) -> Step:
    agent, op, half, at = s
    if half not in ("in", "out", "done"):
        raise ValueError(f"{half!r} is no part of an operation")
    return Step(integer(agent), integer(op), half, form(at))
