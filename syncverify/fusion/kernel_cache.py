"""Kernels that passes made before: kept under all that they follow from, so that a hit does not run them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from syncverify.base.cache_dir import digest
from syncverify.base.diagnostics import Policy
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.fusion.identity import fusion_key
from syncverify.fusion.plan import Plan
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.serialize import dumped, restored


def built(plan: Plan, variant: int, policy: Policy, cache: Cache) -> Kernel:
    """What ``plan.build`` makes. Its proofs are found by its text, whoever made it."""
    name = f"{digest(_identity(plan, variant, policy))}.kernel"
    data = cache.read(name)
    kernel = None if data is None else restored(data)
    if kernel is None:
        kernel = plan.build(variant, policy)
        cache.write(name, dumped(kernel))
    return kernel


def _identity(plan: Plan, variant: int, policy: Policy) -> str:
    """All that a kernel follows from: the tool's sources, the function, the schedule."""
    own: Any = plan
    settings = [repr(getattr(plan, f.name)) for f in fields(own) if f.name != "fusion"]
    parts = (
        tool_fingerprint(),
        policy.value,
        str(variant),
        type(plan).__name__,
        *settings,
        fusion_key(plan.fusion),
    )
    return "\0".join(parts)


__all__ = ["built"]
