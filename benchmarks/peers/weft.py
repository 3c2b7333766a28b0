"""Runs Weft (github.com/lightsighter/Weft) beside syncverify on Weft's examples: verdicts, seconds, memory.

    python benchmarks/peers/weft.py --weft CHECKOUT --work DIR [--limit SECONDS] [--match TEXT] [-o FILE]

Weft is built with its own makefile, the examples with nvcc for sm_90a. Both tools judge the same PTX, Weft's
copy in the syntax of 2015 that it reads: short ``.file`` and ``.loc`` lines, ``shfl`` without its mask. Then
both judge kernels at which Weft is known to be unsound. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.peers.processes import Timed, timed, without_folders  # noqa: E402

#: Intrinsics of warps as they were before sm_70.
SHIM = """#define __shfl(v, ...) __shfl_sync(0xffffffffu, v, __VA_ARGS__)
#define __shfl_down(v, ...) __shfl_down_sync(0xffffffffu, v, __VA_ARGS__)
#define __any(p) __any_sync(0xffffffffu, p)
"""
_HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry _Z1kv()
.maxntid 64, 1, 1
{
.reg .b32 %r<9>;
.reg .f32 %f<9>;
.shared .align 16 .b8 _ZZ1kvE1s[1024];
mov.u32 %r1, %tid.x;
"""
#: Races that Weft does not report.
GAPS = {
    "two writes of a word, no barrier after them": "mov.u32 %r2, _ZZ1kvE1s;\nst.shared.u32 [%r2], %r1;\n",
    "vectors and words in the middle of another warp's": (
        "mov.u32 %r2, _ZZ1kvE1s;\nshl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\nxor.b32 %r5, %r3, 512;\n"
        "add.s32 %r5, %r2, %r5;\nst.shared.v4.f32 [%r4], {%f1, %f2, %f3, %f4};\n"
        "st.shared.f32 [%r5+4], %f5;\nbar.sync 0;\n"
    ),
}


def examples(checkout: Path, work: Path, match: str) -> Iterator[Path]:
    """The PTX of Weft's examples, compiled for sm_90a."""
    shim = work / "shim.h"
    shim.write_text(SHIM)
    sources = (checkout / "examples").glob("*/*.cu")
    for source in sorted(sources, key=lambda s: (s.parent.name in ("DME", "Heptane", "PRF"), s)):
        ptx = work / f"{source.parent.name}_{source.stem}.ptx"
        if match not in ptx.stem:
            continue
        if not ptx.exists():
            command = "nvcc -ptx -lineinfo -m64 -arch=compute_90a -w -include".split()
            subprocess.run([*command, str(shim), "-o", str(ptx), str(source)], check=True)
        yield ptx


def old_syntax(text: str) -> str:
    """PTX as Weft reads it; what is executed stays the same."""
    lines = []
    for line in text.splitlines():
        if ".section" in line:
            break
        if line.lstrip().startswith(".file"):
            line = re.sub(r'("[^"]*").*', r"\1, 0, 0", line)
        if found := re.match(r"\s*\.loc\s+\d+\s+\d+\s+\d+", line):
            line = found[0]
        lines.append(re.sub(r"shfl\.sync(\.\w+\.b32\s+.*),\s*[-\w%]+;", r"shfl\1;", line))
    return "\n".join(lines) + "\n"


def weft(program: Path, ptx: Path, limit: float) -> dict[str, Any]:
    """Weft's verdict on one file; kernels for Fermi under its assumption that warps run in step."""
    old = ptx.with_suffix(".old.ptx")
    old.write_text(old_syntax(ptx.read_text()))
    options = ["-s"] if ptx.stem.endswith("_fermi") else []
    run = timed([str(program), "-t", "2", *options, str(old)], limit, errors=True)
    return _row(run, _weft_verdict(run))


def _weft_verdict(run: Timed) -> str:
    if run.timeout:
        return "timeout"
    if found := re.search(r"WEFT ERROR (\d+): ([^!\n]*)", run.output):
        return f"error {found[1]}: {found[2][:60]}"
    if found := re.search(r"Found (\d+) total races", run.output):
        return f"{found[1]} races"
    if re.search(r"Weft Statements:\s+0\b", run.output):
        return "race-free, 0 statements"
    return "race-free" if "No races detected" in run.output else f"failed: {run.output[-60:]}"


def ours(ptx: Path, limit: float) -> dict[str, Any]:
    run = timed([sys.executable, "-m", "syncverify", "check", str(ptx), "--format", "json"], limit)
    try:
        report = json.loads(run.output)["kernels"][0]
    except (ValueError, IndexError):
        return _row(run, "timeout" if run.timeout else "failed")
    rules = sorted({d["rule"] for d in report["diagnostics"] if d["severity"] == "error"})
    row = _row(run, " ".join([report["verdict"], *rules]))
    return row | {"reason": without_folders(report["reason"] or ""), "assumptions": report["assumptions"]}


def _row(run: Timed, verdict: str) -> dict[str, Any]:
    return {"verdict": verdict, "seconds": run.seconds, "mib": run.mib}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios over the kernels that both decide and that take Weft more than a second."""
    decided = ("proved", "refuted")
    both = [
        r
        for r in rows
        if r["weft"]["seconds"] > 1
        and r["ours"]["verdict"].startswith(decided)
        and r["weft"]["verdict"] != "race-free, 0 statements"
    ]
    times = [log(r["weft"]["seconds"] / r["ours"]["seconds"]) for r in both]
    memory = [log(r["weft"]["mib"] / r["ours"]["mib"]) for r in both]
    return {
        "kernels": len(rows),
        "both decided, over a second in Weft": len(both),
        "timeouts of Weft among them": sum(r["weft"]["verdict"] == "timeout" for r in both),
        "times faster (geomean)": round(exp(sum(times) / len(times)), 1) if times else None,
        "times less memory (geomean)": round(exp(sum(memory) / len(memory)), 1) if memory else None,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--weft", type=Path, required=True, help="a checkout of Weft")
    options.add_argument("--work", type=Path, required=True, help="where PTX is kept")
    options.add_argument("--limit", type=float, default=150, help="processor seconds")
    options.add_argument("--match", default="")
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    subprocess.run(["make", "-s", "-C", str(given.weft / "src")], check=True, capture_output=True)
    program = given.weft / "src" / "weft"
    files = list(examples(given.weft, given.work, given.match))
    for n, (name, body) in enumerate(GAPS.items()):
        gap = given.work / f"gap_{n}.ptx"
        if given.match not in gap.stem:
            continue
        gap.write_text(f"{_HEAD}// {name}\n{body}ret;\n}}\n")
        files.append(gap)
    rows = []
    for ptx in files:
        theirs, own = weft(program, ptx, given.limit), ours(ptx, given.limit)
        row: dict[str, Any] = {"kernel": ptx.stem, "weft": theirs, "ours": own}
        rows.append(row)
        parts = [
            f"{x['verdict'][:40]:40} {x['seconds']:7.2f} s {x['mib']:5} MiB"
            for x in (row["weft"], row["ours"])
        ]
        print(f"{row['kernel']:32}", *parts, flush=True)
        if given.output:
            made = {"limit": given.limit, "summary": summary(rows), "rows": rows}
            given.output.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
