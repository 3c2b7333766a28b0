"""What a sweep has found: printed, written as JSON, and the exit status: 1 if wrong ones were accepted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def reported(found: Mapping[str, Any], plain: Callable[[Any], dict[str, Any]], out: Path | None) -> int:
    """``found``: the counts of each kind of attempt, with their ``mistakes``; ``plain``: counts as JSON."""
    for what, c in found.items():
        sys.stdout.write(f"{what}: {c}\n")
        sys.stdout.write("".join(f"  WRONG {m}\n" for m in c.mistakes))
    if out:
        out.write_text(json.dumps({w: plain(c) for w, c in found.items()}, indent=1) + "\n")
    return 1 if any(c.mistakes for c in found.values()) else 0
