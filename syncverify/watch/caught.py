"""A kernel as its compiler made it: its text, and what the compiler and the call say of its launches."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Caught:
    """One compiled kernel, or the kernels of one program.

    ``kind``: what ``text`` is; ``facts``: a table of launch facts for the kernel ``name`` (empty: for all);
    ``grid``: of the call for which it was compiled, if that is known: others may follow;
    ``options``: of a CUDA source, those of its compiler that matter (``-I``, ``-D``, ``-std``).
    """

    compiler: str
    name: str
    kind: Literal["ptx", "cu"]
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    options: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Equal for kernels whose check is the same."""
        parts = (self.kind, self.text, sorted(self.facts.items(), key=str), self.options)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def stem(self) -> str:
        """A file name without its suffix."""
        return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', self.name)[:80] or 'kernel'}-{self.key[:8]}"


#: What is done with a kernel that was caught.
Sink = Callable[[Caught], None]


def launch_file(caught: Caught) -> str:
    """The facts as the text of a launch file."""
    lines = [f"# made by {caught.compiler}"]
    if caught.grid is not None:
        lines.append(f"# compiled for a call with grid = {list(caught.grid)}")
    head = f"kernel.{json.dumps(caught.name or '*')}"
    facts = dict(caught.facts)
    params = facts.pop("params", {})
    lines += [f"[{head}]", *(f"{key} = {_toml(value)}" for key, value in facts.items())]
    if params:
        lines += [f"[{head}.params]", *(f"{key} = {_toml(value)}" for key, value in params.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


_NAME = re.compile(r"[A-Za-z_]\w*", re.A)
_WORDS = frozenset("and or not if else min max cdiv abs true false grid".split())


def symbol(name: str, otherwise: str) -> str:
    """A name that launch facts take: the argument's own, else ``otherwise``."""
    return name if _NAME.fullmatch(name) and name not in _WORDS else otherwise
