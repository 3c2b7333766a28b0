"""Where the cache is. Every process asks first, so that nothing is loaded for it."""

from __future__ import annotations

import os
import sys


def cache_root() -> str:
    """The user's cache directory, or ``$SYNCVERIFY_CACHE``."""
    given = os.environ.get("SYNCVERIFY_CACHE")
    if given:
        return given
    if sys.platform == "linux":  # what platformdirs says, without loading it
        base = os.environ.get("XDG_CACHE_HOME", "").strip()
        return os.path.join(base or os.path.expanduser("~/.cache"), "syncverify")
    from platformdirs import user_cache_dir

    return user_cache_dir("syncverify")


__all__ = ["cache_root"]
