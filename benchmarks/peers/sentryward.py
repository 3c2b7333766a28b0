"""Runs SentryWard beside syncverify on PTX kernels with the same launch facts: verdicts, seconds, memory.

    python benchmarks/peers/sentryward.py --command PATH [--jobs N] [--limit SECONDS] [-o FILE] DIR_OR_PTX...

SentryWard 0.1.1 comes from PyPI, into an environment of its own; ``--command`` names its program. Each file
is checked by both tools in a fresh process, with the launch file beside it.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.peers.processes import timed, without_folders  # noqa: E402
from syncverify.frontends.launch_facts import read_facts  # noqa: E402
from syncverify.frontends.ptx.syntax.nodes import Function  # noqa: E402
from syncverify.frontends.ptx.syntax.parser import parse  # noqa: E402

_ELEMENTS = {"u8": "u8", "u16": "u16", "u32": "u32", "i32": "s32", "u64": "u64", "i64": "s64"}
_BYTES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}


def sentryward_input(entry: Function, table: dict[str, Any]) -> dict[str, Any]:
    """Our launch facts of one kernel in the form that SentryWard reads."""
    own = entry.directives
    block = table.get("block") or own.get("reqntid") or own.get("maxntid") or [1]
    launch: dict[str, Any] = {"grid_dim": three(table.get("grid", 1)), "block_dim": three(block)}
    if cluster := table.get("cluster") or own.get("reqnctapercluster"):
        launch["cluster_dim"] = three(cluster)
    if isinstance(table.get("dynamic_smem"), int):
        launch["dynamic_shared_bytes"] = table["dynamic_smem"]
    arguments: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    for key, value in table.get("params", {}).items():
        if not key.isdigit():
            continue
        param = entry.params[int(key)]
        at = 0
        for leaf in value if isinstance(value, list) else [value]:
            if not isinstance(leaf, dict):
                continue
            at = leaf.get("at", at)
            where: dict[str, Any] = {"parameter": param.name} | (
                {"offset": at} if isinstance(value, list) else {}
            )
            kind = next(k for k in leaf if k not in ("at", "dtype", "box", "swizzle", "align"))
            if kind == "tensormap":
                maps.append(where | tensor_map(leaf))
                at += 128
            elif kind in _BYTES and isinstance(leaf[kind], int):
                type_ = param.type if param.type != "b8" else kind.replace("i", "s")
                arguments.append(where | {"type": type_, "value": leaf[kind]})
                at += _BYTES[kind]
            elif kind == "bytes" and param.type.startswith("f") and param.size == len(leaf["bytes"]) // 2:
                arguments.append({"parameter": param.name, "type": param.type, "value": real(leaf["bytes"])})
            elif kind == "bytes":
                arguments += words(where, bytes.fromhex(leaf["bytes"]), at)
                at += len(leaf["bytes"]) // 2
            else:
                at += _BYTES.get(kind, 8)
    made: dict[str, Any] = {"schema": "spverify.kernel-input/v1", "entry": entry.name, "launch": launch}
    return (
        made | ({"arguments": arguments} if arguments else {}) | ({"tma_descriptors": maps} if maps else {})
    )


def real(digits: str) -> float:
    """A floating-point number of 2, 4 or 8 bytes."""
    data = bytes.fromhex(digits)
    return float(struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(data)], data)[0])


def three(sizes: Any) -> list[Any]:
    """Sizes along x, y and z."""
    given = [sizes] if isinstance(sizes, int) else list(sizes)
    return [*given, 1, 1][:3]


def words(where: dict[str, Any], data: bytes, at: int) -> Iterator[dict[str, Any]]:
    """Raw bytes as 32-bit words."""
    for i in range(0, len(data) - 3, 4):
        value = int.from_bytes(data[i : i + 4], "little")
        yield where | {"offset": at + i, "type": "u32", "value": value}


def tensor_map(leaf: dict[str, Any]) -> dict[str, Any]:
    """A tensor map with room for four boxes in each dimension."""
    box = leaf.get("box", [1])
    shape = [4 * n for n in box]
    size = _BYTES.get(leaf.get("dtype", "f16"), 2)
    strides, step = [], size
    for n in shape[:-1]:
        step *= n
        strides.append(step)
    swizzle = leaf.get("swizzle", "none")
    dtype = leaf.get("dtype", "f16")
    return {
        "rank": len(box),
        "element_type": _ELEMENTS.get(dtype, dtype),
        "box_shape": box,
        "global_shape": shape,
        "global_strides_bytes": strides,
        "element_strides": [1] * len(box),
        "swizzle": swizzle,
        "interleave": "none",
        "oob_fill": "zero",
    }


def measure(ptx: Path, command: str, limit: float) -> Iterator[dict[str, Any]]:
    """One row per entry of the file; the launch file gives the facts."""
    facts = read_facts(f"{ptx}.launch.toml")
    for entry in parse(ptx.read_text(), str(ptx)).entries:
        row: dict[str, Any] = {"file": f"{ptx.parent.name}/{ptx.name}", "kernel": entry.name}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(sentryward_input(entry, facts.table(entry.name)), file)
            file.flush()
            run = timed([command, str(ptx), "--input", file.name, "--timeout", str(4 * limit)], limit)
        try:
            found = json.loads(run.output)
            first = (found.get("diagnostics") or [{}])[0]
            row["theirs"] = {"verdict": found["result"], "why": str(first.get("code", ""))}
            row["theirs"] |= {"seconds": run.seconds, "mib": round(found.get("peak_rss_mib") or run.mib)}
        except ValueError:
            verdict = "timeout" if run.timeout else "failed"
            row["theirs"] = {"verdict": verdict, "why": "", "seconds": run.seconds, "mib": run.mib}
        ours = [
            sys.executable,
            "-m",
            "syncverify",
            "check",
            str(ptx),
            "--kernel",
            entry.name,
            "--format",
            "json",
        ]
        run = timed(ours, limit)
        try:
            report = json.loads(run.output)["kernels"][0]
            rules = sorted({d["rule"] for d in report["diagnostics"] if d["severity"] == "error"})
            why = " ".join(rules) or without_folders(str(report["reason"] or ""))
            row["ours"] = {"verdict": report["verdict"], "why": why}
        except (ValueError, IndexError):
            row["ours"] = {"verdict": "timeout" if run.timeout else "error", "why": run.output[:80]}
        row["ours"] |= {"seconds": run.seconds, "mib": run.mib}
        yield row


def files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.rglob("*.ptx")) if path.is_dir() else [path]
        yield from (p for p in found if Path(f"{p}.launch.toml").exists())


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("paths", nargs="+", type=Path)
    options.add_argument("--command", default="sentryward")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--limit", type=float, default=60, help="processor seconds")
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    with ThreadPoolExecutor(given.jobs) as pool:
        work = pool.map(lambda p: list(measure(p, given.command, given.limit)), files(given.paths))
        rows = []
        for made in work:
            for row in made:
                parts = [
                    f"{x['verdict']:14} {x['seconds']:6.2f} s {x['mib']:4} MiB {x['why'][:40]:40}"
                    for x in (row["theirs"], row["ours"])
                ]
                print(f"{row['file']:44}", *parts, flush=True)
            rows += made
    pairs = Counter((r["theirs"]["verdict"], r["ours"]["verdict"]) for r in rows)
    decided = [r for r in rows if r["theirs"]["verdict"] in ("race_free", "potential_race", "not_wellsynced")]
    summary = {
        "kernels": len(rows),
        "theirs, ours": {f"{a}, {b}": n for (a, b), n in pairs.most_common()},
        "both decided": sum(r["ours"]["verdict"] in ("proved", "refuted") for r in decided),
        "median seconds of ours over theirs": round(
            median([r["ours"]["seconds"] / r["theirs"]["seconds"] for r in decided]), 2
        )
        if decided
        else None,
    }
    print(json.dumps(summary, indent=1))
    if given.output:
        given.output.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
