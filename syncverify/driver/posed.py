"""What the check of a PTX entry poses to who follows a proof for every size, and the answer it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.diagnostics import Verdict


@dataclass(frozen=True, slots=True)
class Posed:
    """Open launches as the check of a PTX entry poses them."""

    sizes: Mapping[str, tuple[int, int | None]]
    facts: tuple[Any, ...]
    systems: Callable[..., Any]
    fixed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """That every size is proved, or not, in the form that the check of a PTX entry takes."""

    verdict: Verdict = Verdict.PROVED
    rounds: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    diagnostics: tuple[Any, ...] = ()
    stats: Mapping[str, int] = field(default_factory=dict)
    graphs: tuple[Any, ...] = ()
    parts: tuple[Any, ...] = ()
    alone: bool = False
    restores: bool = False
    stopped: Mapping[int, str] = field(default_factory=dict)
    launches: tuple[Mapping[str, int], ...] = ()
