"""Kernels of products that passes made before, kept under all that they follow from."""

from __future__ import annotations

from dataclasses import fields

from syncverify.base.cache_dir import digest
from syncverify.base.diagnostics import Policy
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.fusion.identity import fusion_key
from syncverify.fusion.traced import Fusion
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.serialize import dumped, restored
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule


def built(problem: Problem, schedule: Schedule, policy: Policy, vector: int, cache: Cache) -> Kernel:
    """What ``build`` makes. Its proofs are found by its text, whoever made it."""
    given = [getattr(problem, f.name) for f in fields(problem)]
    parts = [fusion_key(x) if isinstance(x, Fusion) else repr(x) for x in given]
    identity = (tool_fingerprint(), policy.value, str(vector), repr(schedule), *parts)
    name = f"{digest(chr(0).join(identity))}.kernel"
    data = cache.read(name)
    kernel = None if data is None else restored(data)
    if kernel is None:
        from syncverify.matmul.pipeline import build  # the passes: only who makes a kernel needs them

        kernel = build(problem, schedule, policy, vector)
        cache.write(name, dumped(kernel))
    return kernel


__all__ = ["built"]
