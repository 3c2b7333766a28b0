"""Sizes of which something is asked before any turn of a loop takes them anew: see ``model/deals.py``."""

from __future__ import annotations

from syncverify.model.deals import Asked
from syncverify.model.path import Path
from syncverify.model.terms import Space


def answered(space: Space, asked: Asked) -> bool:
    """Answers a question about an atom, if there is one of its name. True."""
    name, k, c = asked
    for a, atom in enumerate(space.atoms):
        if atom.name == name:
            space.at_least(space.term(c, ((a, k),)))
    return True


def open_ended(space: Space, path: Path) -> bool:
    """Whether a size that was asked about early has no number, or none was."""
    names = {name for name, *_ in space.early}
    atoms = [a for a, atom in enumerate(space.atoms) if atom.name in names]
    return not atoms or any(path.resolve(0, ((a, 1),))[1] for a in atoms)


__all__ = ["answered", "open_ended"]
