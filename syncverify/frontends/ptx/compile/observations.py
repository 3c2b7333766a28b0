"""What the runs of one launch were seen to do, by the site of an instruction.

All programs of one function share one such object: code for a class of lanes, or for open sizes, goes on with
what other code saw of the same sites. It is emptied in place, for systems under way hold its sets.

Example: a store whose lanes were seen to store 1 and 2 is no store of one value. The code that only one role
runs is compiled later, and must not forget it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class LaunchObservations:
    """Sites, and what was seen there since the launch began.

    one_value          stores that were not seen to store different values
    equal_value        those that were seen to store one known value
    stored             what each stored, by cluster and blocks written
    data_addressed     accesses whose place in shared memory data says
    array_addressed    of those that are taken to stay inside the array that they name: its name
    dynamic_addressed  accesses whose steps lead through dynamic shared memory
    unbounded_slots    accesses at slots that comparisons alone limit
    ranks_of_floats    accesses at ranks among floats
    placed_by_sizes    accesses that race with none of their group if no number wraps; whether parameters
                       below 0 are left out
    trusted            where the kernel would stop itself, as is taken not to be
    leaves             where threads may leave, and are taken not to
    """

    one_value: set[int] = field(default_factory=set)
    equal_value: set[int] = field(default_factory=set)
    stored: dict[Any, Any] = field(default_factory=dict)
    data_addressed: set[int] = field(default_factory=set)
    array_addressed: dict[int, str] = field(default_factory=dict)
    dynamic_addressed: set[int] = field(default_factory=set)
    unbounded_slots: set[int] = field(default_factory=set)
    ranks_of_floats: set[int] = field(default_factory=set)
    placed_by_sizes: dict[int, bool] = field(default_factory=dict)
    trusted: set[int] = field(default_factory=set)
    leaves: set[int] = field(default_factory=set)

    def found_store(self, site: int, *, numbers: bool) -> None:
        """A store, of one value until another is seen; ``numbers``: of numbers in the text alone."""
        self.one_value.add(site)
        if numbers:
            self.equal_value.add(site)

    def forget(self, stores: Mapping[int, bool]) -> None:
        """Begins another launch with the stores that were compiled; see ``found_store``."""
        for name in fields(self):
            getattr(self, name.name).clear()
        for site, numbers in stores.items():
            self.found_store(site, numbers=numbers)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While other launches are looked at, what this one saw is put aside."""
        before = [(x, x.copy()) for x in (getattr(self, f.name) for f in fields(self))]
        try:
            yield
        finally:
            for found, was in before:
                found.clear()
                found.update(was)


__all__ = ["LaunchObservations"]
