"""Faults of a judge that a report does without.

Who checks a kernel gets the report as it was; who develops sees the fault, if ``SYNCVERIFY_RAISE_FAULTS`` is
set: the tests set it.
"""

from __future__ import annotations

import os

#: The variable of the environment that asks for faults.
RAISE_FAULTS = "SYNCVERIFY_RAISE_FAULTS"


def do_without(fault: Exception) -> None:
    """Leaves a fault out, or raises it again where the environment asks for faults."""
    if os.environ.get(RAISE_FAULTS):
        raise fault


__all__ = ["RAISE_FAULTS", "do_without"]
