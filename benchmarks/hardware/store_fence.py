"""The proxy fence of a bulk-store epilogue in each scope, place and issuer: verdicts, and times on a GPU.

    python benchmarks/hardware/store_fence.py [--turns N] [--rounds N]

Checks the forms of ``benchmarks/hardware/litmus/store_fence.cu`` for every number of turns and every grid.
With a Hopper GPU and torch, counts the wrong words that each wrote and times all forms in alternation, with
tiles that stay in L2 (the epilogue alone) and with tiles that go to memory. Writes store_fence.json into
$OUT if that is set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "benchmarks" / "hardware" / "litmus" / "store_fence.cu"
SCOPES = ("fence.proxy.async", "fence.proxy.async.shared::cta")
PLACES = (
    "inside the loop", "behind the loop", "by warp 0 before the barrier", "by warp 0 behind the barrier",
    "by the issuer behind the barrier",
)  # fmt: skip
ISSUERS = ("thread 0", "warp 0, elected", "warp 0 by shuffle, elected")
WORDS, THREADS = 4096, 256
FACTS = """[kernel."*"]
grid = "any"
block = [256, 1, 1]
assume = ["turns >= 0", "turns <= 1000000", "wrap >= 1"]
[kernel."*".params]
0 = {ptr = "out"}
1 = {i32 = "turns"}
2 = {i32 = "wrap"}
"""


@dataclass(frozen=True, slots=True)
class Form:
    """Indices into SCOPES, PLACES and ISSUERS."""

    scope: int
    place: int
    issuer: int

    def __str__(self) -> str:
        return f"{SCOPES[self.scope]}, {PLACES[self.place]}, {ISSUERS[self.issuer]}"

    @property
    def defines(self) -> dict[str, int]:
        return {"SCOPE": self.scope, "PLACE": self.place, "ISSUER": self.issuer}


def forms() -> Iterator[Form]:
    """All of them; a fence behind the barrier has the narrow scope."""
    every = product(range(len(SCOPES)), range(len(PLACES)), range(len(ISSUERS)))
    return (Form(*f) for f in every if f[1] < 2 or f[0] == 1)


def verdict(form: Form) -> dict[str, Any]:
    """What the checker says of one form, for every number of turns and every grid."""
    with tempfile.TemporaryDirectory() as folder:
        launch = Path(folder) / "launch.toml"
        launch.write_text(FACTS)
        defines = [x for n, v in form.defines.items() for x in ("-D", f"{n}={v}")]
        command = [sys.executable, "-m", "syncverify", "check", str(SOURCE), "--launch", str(launch)]
        run = subprocess.run(
            [*command, "--format", "json", *defines], capture_output=True, text=True, cwd=ROOT, check=False
        )
    (kernel,) = json.loads(run.stdout)["kernels"]
    return {"verdict": kernel["verdict"], "findings": sorted({d["rule"] for d in kernel["diagnostics"]})}


def timed(turns: int, rounds: int) -> list[dict[str, Any]]:
    """Microseconds of each form's launch (median of alternating rounds), and wrong words in all of them."""
    import torch

    from syncverify.base.nvrtc import compile_source
    from syncverify.codegen import driver

    stream = int(torch.cuda.current_stream().cuda_stream)
    blocks = 2 * torch.cuda.get_device_properties(0).multi_processor_count
    kernels = {}
    for form in forms():
        text = "".join(f"#define {n} {v}\n" for n, v in form.defines.items()) + SOURCE.read_text()
        kernels[form] = driver.load(compile_source(text, "store_fence").code, "store_fence", 0, 0)
    result = []
    for memory, wrap in (("L2", 2), ("memory", turns)):
        out = torch.full((blocks * wrap * WORDS,), float("nan"), device="cuda")
        arguments = [
            (out.data_ptr(), driver.POINTER),
            (turns, driver.INTEGERS["i32"]),
            (wrap, driver.INTEGERS["i32"]),
        ]
        times: dict[Form, list[float]] = {f: [] for f in kernels}
        wrong = dict.fromkeys(kernels, 0)
        for turn in range(rounds + 2):
            for form, kernel in kernels.items():
                before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                before.record()
                driver.launch(kernel, (blocks, 1, 1), (THREADS, 1, 1), arguments, stream)
                after.record()
                torch.cuda.synchronize()
                wrong[form] += _wrong_words(out, blocks, wrap, turns)
                out.fill_(float("nan"))
                if turn > 1:
                    times[form].append(before.elapsed_time(after) * 1000)
        for form, each in times.items():
            gigabytes = blocks * turns * WORDS * 4 / statistics.median(each) / 1e3
            result.append(
                {"tiles in": memory, "form": str(form), **asdict(form),
                 "microseconds": round(statistics.median(each), 2), "GB/s": round(gigabytes),
                 "wrong words": wrong[form], "words": out.numel() * (rounds + 2)}
            )  # fmt: skip
    return result


def _wrong_words(out: Any, blocks: int, wrap: int, turns: int) -> int:
    """Every word of slot s is the last turn that used the slot, plus the word's place in groups of four."""
    import torch

    last = torch.tensor([turns - 1 - (turns - 1 - s) % wrap for s in range(wrap)], device="cuda")
    words = torch.arange(WORDS, device="cuda") // 4 * 4
    expected = (last[:, None] + words).float()
    return int((out.view(blocks, wrap, WORDS) != expected).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--no-gpu", action="store_true", help="verdicts only")
    parser.add_argument("--no-check", action="store_true", help="times only")
    options = parser.parse_args()
    record: dict[str, Any] = {}
    if not options.no_check:
        record["verdicts"] = [{"form": str(f), **verdict(f)} for f in forms()]
    if not options.no_gpu:
        record["times"] = timed(options.turns, options.rounds)
    for rows in record.values():
        for row in rows:
            print(*(f"{k}: {v}" for k, v in row.items()), sep="  ")
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "store_fence.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
