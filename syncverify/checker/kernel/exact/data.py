"""What events say as certificates hold it."""

from __future__ import annotations

from typing import Any


def plain(x: Any) -> Any:
    """Arguments of events as JSON holds them."""
    if isinstance(x, tuple | list):
        return [plain(y) for y in x]
    return x if x is None or isinstance(x, str | bool) else int(x)
