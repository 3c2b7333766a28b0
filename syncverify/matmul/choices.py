"""Schedules that were measured to be the fastest for some sizes, as files of a cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from syncverify.base.cache_dir import Store, digest
from syncverify.base.diagnostics import Policy
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule


def file_name(problem: Problem, sizes: Mapping[str, int], device: str, policy: Policy, tool: str) -> str:
    """The file of a choice: other epilogues, sizes, devices and tools have files of their own."""
    fusions = [f for f in (problem.prologue, problem.epilogue) if f is not None]
    nodes = [(str(f.inputs), str(f.outputs), [(i, str(f.node(i))) for i in f.order()]) for f in fusions]
    parts: list[Any] = [
        tool, problem.dtype, problem.layout, nodes, sorted(sizes.items()),
        device, policy.value,
    ]  # fmt: skip
    return f"{digest(json.dumps(parts))}.matmul.json"


def remembered(store: Store, name: str) -> Schedule | None:
    data = store.read(name)
    if data is None:
        return None
    try:
        fields = json.loads(data)["schedule"]
        if fields["registers"] is not None:
            fields["registers"] = tuple(fields["registers"])
        return Schedule(**fields)
    except (ValueError, KeyError, TypeError):
        return None


def remember(store: Store, name: str, schedule: Schedule, seconds: float) -> None:
    store.write(name, json.dumps({"schedule": asdict(schedule), "seconds": seconds}).encode())


__all__ = ["file_name", "remember", "remembered"]
