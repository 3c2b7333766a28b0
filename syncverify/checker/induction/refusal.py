"""A kernel that is not read as a protocol."""

from __future__ import annotations


class NotReadError(Exception):
    """The kernel is not read as a protocol; the message says why."""
