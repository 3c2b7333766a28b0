"""Kernels that stop themselves: where an assertion may fail, some launch must be there at which none does."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from syncverify.checker.prover.parametric.concrete_checks import ConcreteChecks
from syncverify.checker.prover.parametric.system_proof import SystemProof
from syncverify.model.events import Undefined

#: Launches that are looked at.
MOST_LAUNCHES = 3


def always_stopped(found: Iterable[SystemProof], numbers: ConcreteChecks) -> str | None:
    """An assertion of the kernel that may fail at all sizes: no launch is found that is proved as it is; or
    what is not defined, if no run ends without."""
    explored = list(found)
    why = next((w for e in explored for w in e.stopped.values() if not e.ends), None)
    why = why or next((w for e in explored for w in e.stopped.values() if not isinstance(w, Undefined)), None)
    if why is None or not all(e.ends for e in explored if e.stopped):
        return why
    ends = ((path, e.space) for e in explored for path in e.ends if e.space is not None)
    launches = (
        next(numbers.models_of_path(path, space), None) for path, space in islice(ends, MOST_LAUNCHES)
    )
    return None if any(values is not None and numbers.proved(values) for values in launches) else why
