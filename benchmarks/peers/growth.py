"""How the time of SentryWard and of syncverify grows with the trip count of a ring of two stages.

    python benchmarks/peers/growth.py --command PATH [--limit SECONDS] [-o FILE]

One lane loads tiles with bulk copies, one warp reads them. SentryWard is given each count; syncverify is
given each count, and once none: its proof for every count.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.peers.processes import Timed, timed  # noqa: E402
from tests.driver.ptx.test_check import RING  # noqa: E402
from tests.frontends.ptx.execute_helpers import module_text  # noqa: E402

COUNTS = (8, 32, 64, 128, 256, 512, 1024)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--command", default="sentryward")
    options.add_argument("--limit", type=float, default=120, help="processor seconds")
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "ring.ptx"
        body = RING.replace("BYTES", "2048").replace("FENCE", "fence.proxy.async.shared::cta;")
        ptx.write_text(module_text(body, ".param .u32 k_n, .param .u64 k_in"))
        late = False
        for n in COUNTS:
            row: dict[str, Any] = {"n": n}
            if not late:
                run = timed([given.command, str(ptx), "--input", str(_input(Path(folder), n))], given.limit)
                late = run.timeout
                row["sentryward"] = _row(run, "result")
            row["syncverify"] = _row(_ours(ptx, Path(folder), n, given.limit), "verdict")
            rows.append(row)
            print(row, flush=True)
        every = _row(_ours(ptx, Path(folder), None, given.limit), "verdict")
    print("every n:", every)
    if given.output:
        given.output.write_text(json.dumps({"rows": rows, "every": every}, indent=1) + "\n")
    return 0


def _input(folder: Path, n: int) -> Path:
    """SentryWard's input."""
    path = folder / "input.json"
    launch = {"grid_dim": [1, 1, 1], "block_dim": [64, 1, 1]}
    arguments = [{"parameter": "k_n", "type": "u32", "value": n}]
    made = {
        "schema": "spverify.kernel-input/v1",
        "entry": "k",
        "launch": launch,
        "arguments": arguments,
    }
    path.write_text(json.dumps(made))
    return path


def _ours(ptx: Path, folder: Path, n: int | None, limit: float) -> Timed:
    facts = folder / "launch.toml"
    count = "" if n is None else f"[kernel.k.params]\n0 = {{u32 = {n}}}\n"
    facts.write_text(f"[kernel.k]\nblock = [64, 1, 1]\ngrid = [1, 1, 1]\n{count}")
    command = [sys.executable, "-m", "syncverify", "check", str(ptx), "--launch", str(facts)]
    return timed([*command, "--format", "json"], limit)


def _row(run: Timed, key: str) -> dict[str, Any]:
    verdict = "timeout"
    if not run.timeout:
        found = json.loads(run.output)
        verdict = found[key] if key in found else found["kernels"][0][key]
    return {"verdict": verdict, "seconds": run.seconds, "mib": run.mib}


if __name__ == "__main__":
    sys.exit(main())
