"""What is known of all sizes of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from syncverify.base.diagnostics import Diagnostic, Verdict
from syncverify.checker.prover.reach.graph import ReachabilityGraph


@dataclass(slots=True)
class ParametricResult:
    """What is known of all sizes. ``values``: where the kernel is refuted; ``reason``: why it is unknown."""

    verdict: Verdict
    rounds: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    stats: dict[str, int] = field(default_factory=dict)
    graphs: tuple[ReachabilityGraph, ...] = ()
    parts: tuple[
        tuple[Mapping[str, int], ParametricResult], ...
    ] = ()  # proofs that it rests on, each for fixed values
    stages: object = None  # a proof for every number of stages
    alone: bool = False  # of clusters of a block group each by itself
    restores: bool = False  # flags in global memory are left as they were found
    stopped: Mapping[int, str] = field(default_factory=dict)  # lines that nobody is taken to stop at, and why
    launches: tuple[Mapping[str, int], ...] = ()  # that represent all, each checked by itself


__all__ = ["ParametricResult"]
