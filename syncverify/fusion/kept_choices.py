"""Schedules that the row menu chose before, on disk: to rank a menu takes each process 20 to 160 ms."""

from __future__ import annotations

import json
from dataclasses import asdict

from syncverify.base.cache_dir import digest
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.fusion import row_menu
from syncverify.fusion.graph import Fusion
from syncverify.fusion.identity import fusion_key
from syncverify.fusion.row_cards import here
from syncverify.fusion.row_schedule import RowSchedule


def chosen(fusion: Fusion, schedule: RowSchedule, width: int) -> RowSchedule:
    """What ``row_menu.chosen`` prefers on this card. A file that holds no schedule is written again."""
    parts = tool_fingerprint(), repr(here()), repr(schedule), str(width), fusion_key(fusion)
    cache, name = Cache.default(), f"{digest(chr(0).join(parts))}.rows.json"
    found = _restored(cache.read(name))
    if found is None:
        found = row_menu.chosen(fusion, schedule, width)
        cache.write(name, json.dumps(asdict(found)).encode())
    return found


def _restored(data: bytes | None) -> RowSchedule | None:
    try:
        found = None if data is None else RowSchedule(**json.loads(data))
        if found is not None:
            found.check()
    except (ValueError, TypeError, InputError):
        return None
    return found


__all__ = ["chosen"]
