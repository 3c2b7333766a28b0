"""Certificates of the corpus: size, time of recheck against check, and changes of all their leaves.

python benchmarks/bench_certificates.py FILE.syncir ... [--changes]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from syncverify.certificate import RejectedError, certify, dumps, recheck, resealed
from syncverify.diagnostics import ScopeKind, Verdict
from syncverify.files import read_source
from syncverify.ir.nodes import Kernel
from syncverify.source import InputError
from syncverify.verify import check_kernel
from tests.certificate.mutate import changed, changes, unordered


def timed(f: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    out = f()
    return time.perf_counter() - start, out


def accepted(text: str, kernels: dict[str, Kernel]) -> tuple[int, list[Any]]:
    """How many changes were tried, and those that the validator did not reject."""
    data, tried, passed = json.loads(text), 0, []
    for change in changes(data):
        if unordered(*change):
            continue
        tried += 1
        try:
            recheck(json.dumps(resealed(changed(data, *change))), "changed", kernels)
            passed.append(change)
        except (RejectedError, InputError):
            pass
    return tried, passed


def main(args: list[str]) -> None:
    """One line a kernel."""
    for file in (a for a in args if not a.startswith("--")):
        for kernel in read_source(file).kernels:
            checked, report = timed(lambda k=kernel: check_kernel(k, scope=ScopeKind.ALL))
            if report.verdict is not Verdict.PROVED:
                continue
            text, kernels = dumps([certify(kernel, report)]), {kernel.name: kernel}
            again, (done,) = timed(lambda t=text, k=kernels: recheck(t, "certificate", k))
            line = f"{kernel.name:40} {done.kind:7} check {checked:6.2f} s  recheck {again:6.2f} s"
            line += f"  {len(text):7} bytes"
            if "--changes" in args:
                tried, passed = accepted(text, kernels)
                line += f"  {tried} changes, accepted: {passed or 'none'}"
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
