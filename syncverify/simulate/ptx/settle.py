"""Values that were loaded from shared memory and have perhaps not arrived before a refill.

A load of shared memory that nothing has waited for may be served after a later release of the same thread, by
the time of which a bulk copy refills the bytes. It has arrived once an instruction that cannot be moved looks
at its value: a store, a branch, a wgmma operand; or at a fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncverify.simulate.ptx.types import Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment


def all_of(m: Machine, f: Fragment, on: Lanes) -> None:
    """A fence of these lanes."""


def at_release(m: Machine, f: Fragment, on: Lanes) -> None:
    """A release by these lanes."""
