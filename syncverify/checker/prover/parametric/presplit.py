"""Sizes of which something is asked before any iteration of a loop havocs them.

See ``symbolic/round_robin.py``.
"""

from __future__ import annotations

from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.round_robin import PresplitQuestion


def answered(space: SymbolicContext, asked: PresplitQuestion) -> bool:
    """Answers a question about a symbol, if there is one of its name. True."""
    name, k, c = asked
    for a, atom in enumerate(space.symbols):
        if atom.name == name:
            space.at_least(space.term(c, ((a, k),)))
    return True


def open_ended(space: SymbolicContext, path: PathCondition) -> bool:
    """Whether a size that was asked about early has no number, or none was."""
    names = {name for name, *_ in space.presplit}
    atoms = [a for a, atom in enumerate(space.symbols) if atom.name in names]
    return not atoms or any(path.resolve(0, ((a, 1),))[1] for a in atoms)


__all__ = ["answered", "open_ended"]
