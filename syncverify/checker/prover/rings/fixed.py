"""Kernels with numbers for some of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from syncverify.ir.expr import Binary, Int, Var
from syncverify.ir.nodes import Kernel


def with_fixed(kernel: Kernel, given: Mapping[str, int]) -> Kernel:
    """The kernel with the assumption that some parameters have these values."""
    fixed = tuple(Binary("==", Var(p), Int(v)) for p, v in given.items())
    return replace(kernel, assumes=(*kernel.assumes, *fixed))
