"""Kernels that hand data over through global memory: launch facts, and what a report says of them."""

from __future__ import annotations

from typing import Any

PARAMS = ".param .u64 k_out, .param .u64 k_flag, .param .u32 k_n"
FACTS = """
[kernel.k]
grid = [{grid}]
block = [32]
[kernel.k.params]
0 = {{ptr = "out"}}
1 = {{ptr = "flag"}}
2 = {{i32 = 3}}
"""


def first(report: dict[str, Any]) -> tuple[str, int]:
    """Rule and line of the first error."""
    assert report["verdict"] == "refuted", report.get("reason")
    d = next(d for d in report["diagnostics"] if d["severity"] == "error")
    return d["rule"], d["line"]


def line(text: str, what: str) -> int:
    return next(n for n, x in enumerate(text.splitlines(), 1) if what in x)
