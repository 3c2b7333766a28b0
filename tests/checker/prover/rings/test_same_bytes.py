"""Proofs and reports are the same bytes, whatever order Python gives the elements of sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checker.induction.bases import IR, PTX
from tests.checker.prover.rings.kernels import GOOD

#: Facts of the compiled ring.
LAUNCH = """[kernel.ring]
grid = ["B", 1, 1]
block = [64, 1, 1]
dynamic_smem = 816
assume = ["N >= 1"]
[kernel.ring.params]
0 = { ptr = "a", align = 16 }
1 = { ptr = "out", align = 16 }
2 = { i32 = "B" }
3 = { i32 = "N" }
"""
FILES = {
    "ring.syncir": IR["ring of three"].text,
    "blocks.syncir": IR["blocks"].text,
    "wgmma.syncir": IR["products"].text,
    "stages.syncir": GOOD["two consumers"],
    "ring.ptx": PTX,
}
_CHECK = """
import sys
from syncverify.cli.main import run
for name in sys.argv[1:]:
    wanted = ["--require", "kernel", "--no-cache", "-o", f"json:{name}.json"]
    assert run(["check", name, *wanted, "--certificate", f"{name}.proof"]) == 0, name
"""


def written(folder: Path, names: tuple[str, ...], seed: int) -> dict[str, str]:
    """The reports and proofs of some kernels, but for the time that they took."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text(FILES[name])
    if "ring.ptx" in names:
        (folder / "ring.ptx.launch.toml").write_text(LAUNCH)
    env = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", _CHECK, *names]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    texts = {p.name: p.read_text() for p in folder.iterdir() if p.suffix in (".json", ".proof")}
    return {name: re.sub(r'"seconds": [\d.e-]+', "", text) for name, text in texts.items()}


@pytest.mark.parametrize(
    "names", [("blocks.syncir",), pytest.param(tuple(FILES), marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_proofs_and_reports_are_the_same_bytes(tmp_path: Path, names: tuple[str, ...]) -> None:
    first, second = (written(tmp_path / str(seed), names, seed) for seed in (0, 2711))
    assert len(first) == 2 * len(names)
    assert first == second
