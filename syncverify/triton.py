"""Checks every kernel that Triton compiles in this process, without a GPU and without a launch file.

    import syncverify.triton

    syncverify.triton.install()                 # reports on stderr
    syncverify.triton.install(action="raise")   # a refuted kernel raises where it is compiled

Kernels of torch.compile are Triton's. Other compilers are watched by name: ``compilers=("cute", ...)``.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable
from typing import Literal

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.watch.compilers import COMPILERS, watch
from syncverify.watch.replaced import Undo
from syncverify.watch.session import SECONDS, Action, Session, UnverifiedKernelError

_installed: list[tuple[Session, Undo]] = []


def install(
    action: Action = "report",
    *,
    policy: Policy | str = Policy.PRACTICAL,
    unknown: Literal["pass", "fail"] = "pass",
    timeout: float = SECONDS,
    compilers: Iterable[str] = ("triton",),
) -> Session:
    """Checks kernels from now on, and says at the end how many there were. Returns the session.

    ``action``: ``report`` writes the report of each kernel that is not proved on stderr, ``raise`` raises
    UnverifiedKernelError, ``collect`` only keeps it in ``session.reports``. ``unknown``: whether undecided
    kernels pass. ``timeout``: seconds for one kernel. Installing again replaces what was installed.
    """
    if action not in ("report", "raise", "collect"):
        raise InputError(f"action is {action!r}: use 'report', 'raise' or 'collect'")
    uninstall()
    session = Session(action, Policy(policy), unknown, timeout)
    _installed.append((session, watch(session, compilers)))
    return session


def uninstall() -> None:
    """Ends what ``install`` began."""
    while _installed:
        _installed.pop()[1]()


def _say() -> None:
    for session, _ in _installed:
        if session.action == "report" and (session.reports or session.faults):
            session.write(session.summary() + "\n")


atexit.register(_say)

__all__ = ["COMPILERS", "Session", "UnverifiedKernelError", "install", "uninstall"]
