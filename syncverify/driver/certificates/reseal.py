"""Certificates whose data was changed: their digests again."""

from __future__ import annotations

from typing import Any

from syncverify.base.certificate_data import sealed
from syncverify.driver.rechecked import PARTS


def resealed(data: Any, inside: str = "") -> Any:
    """The data with all digests computed again."""
    if isinstance(data, list):
        return [resealed(x, inside) for x in data]
    if not isinstance(data, dict):
        return data
    out = {k: resealed(v, k if k in PARTS else "") for k, v in data.items()}
    return sealed(out) if inside or "format" in data else out
