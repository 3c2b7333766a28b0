"""Certificates: what was proved of kernels, validated without a search. See ``docs/certificates.md``.

The names below load when they are first used: who follows a certificate loads nothing that issues one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncverify.base.certificate_data import RejectedError
    from syncverify.driver.certificates.follow import recheck
    from syncverify.driver.certificates.issue import certify, dumps
    from syncverify.driver.certificates.reseal import resealed
    from syncverify.driver.rechecked import Rechecked

_HOME = {
    "Rechecked": "syncverify.driver.rechecked",
    "RejectedError": "syncverify.base.certificate_data",
    "certify": "syncverify.driver.certificates.issue",
    "dumps": "syncverify.driver.certificates.issue",
    "recheck": "syncverify.driver.certificates.follow",
    "resealed": "syncverify.driver.certificates.reseal",
}

__all__ = ["Rechecked", "RejectedError", "certify", "dumps", "recheck", "resealed"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
