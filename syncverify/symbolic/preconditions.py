"""The paths that preconditions leave of a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncverify.symbolic.context import SymbolicContext, SymbolSplit, UndecidedBranch
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.path_condition import PathCondition


def split_on_preconditions(
    space: SymbolicContext,
    path: PathCondition,
    facts: list[Callable[[], Any]],
    build: Callable[[], Any] | None = None,
) -> list[PathCondition]:
    """The paths on which all facts hold; a fact that is open is decided both ways. ``build`` is called on
    each of them.

    A fact is asked on the path that ``space.path`` is. It is asked again once a symbol is divided or a branch
    is decided, so what it answers must not depend on how often it was asked; so is what is built. A fact that
    divides by zero does not hold. What is built must not: a path is never left out for that.
    """
    steps = facts if build is None else [*facts, lambda: (build(), True)[1]]
    done: list[PathCondition] = []
    work = [(path, 0)]
    while work:
        path, i = work.pop()
        if i == len(steps):
            done.append(path)
            continue
        space.path = path
        try:
            if steps[i]():
                work.append((path, i + 1))
        except ZeroDivisionError:
            if i == len(facts):
                raise
        except SymbolSplit as r:
            path.substitute(r.atom, r.c, r.parts)
            work.append((path, i))
        except UndecidedBranch as o:
            other = path.fork()
            path.assume(o.c, o.parts)
            other.assume(-o.c - 1, negated(o.parts))
            work += [(p, i) for p in (other, path) if not p.dead]
    return done
