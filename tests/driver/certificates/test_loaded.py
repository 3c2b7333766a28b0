"""What the recheck of a certificate loads: no search, and nothing for proofs of another kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from syncverify.cli.main import run

ROOT = Path(__file__).parents[3]
SEARCHES = (
    "syncverify.checker.exact_check", "syncverify.checker.prover.parametric",
    "syncverify.checker.prover.protocols", "syncverify.checker.prover.reach.analysis",
    "syncverify.checker.prover.reach.domain", "syncverify.checker.prover.reach.worklist",
    "syncverify.checker.prover.rings", "syncverify.driver.certificates.graphs",
    "syncverify.driver.certificates.issue", "syncverify.driver.prover", "syncverify.simulate",
)  # fmt: skip
OTHERS = (
    "syncverify.checker.induction", "syncverify.driver.by_kernel",
    "syncverify.driver.certificates.follow_rings",
)  # fmt: skip
#: What only the checker's handlers and proofs for every size need.
EXPLORED = (
    "syncverify.checker.explain", "syncverify.checker.happens_before", "syncverify.checker.prover.reach",
    "syncverify.driver.certificates.sizes",
)  # fmt: skip
OPEN = """[kernel.bulk_ring]
block = [160]
grid = ["g"]
[kernel.bulk_ring.params]
0 = "ptr"
1 = "ptr"
2 = {i32 = "n"}
"""


@pytest.mark.parametrize(
    ("kernel", "open_", "none_of"),
    [
        ("corpus/ptx/generic_without_cvta.good.ptx", "", EXPLORED),
        ("corpus/more/two_writers.good.syncir", "", (*EXPLORED, "syncverify.frontends.ptx")),
        ("corpus/ptx/bulk_ring.good.ptx", OPEN, ()),
        ("corpus/sizes/warps_count_their_own_rows.good.syncir", "", ("syncverify.frontends.ptx",)),
    ],
)
def test_no_search_is_loaded(kernel: str, open_: str, none_of: tuple[str, ...], tmp_path: Path) -> None:
    source, certificate, launch = str(ROOT / kernel), str(tmp_path / "c.json"), tmp_path / "open.toml"
    given = ["--launch", str(launch)] if open_ else []
    launch.write_text(open_)
    assert run(["check", "--no-cache", "--certificate", certificate, *given, source]) == 0
    code = (
        "import sys\nfrom syncverify.cli.main import run\n"
        f"print('exit', run({['recheck', *given, certificate, source]}))\n"
        f"print([m for m in sys.modules if m.startswith({('z3', *SEARCHES, *OTHERS, *none_of)})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, status, loaded = done.stdout.strip().splitlines()
    assert (status, loaded) == ("exit 0", "[]"), done.stdout
