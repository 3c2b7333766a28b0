"""Makes the real-kernel corpus: `python -m tests.system.real.generate [--family NAME] [--tiny]`.

Each family compiles in an environment of its own, in the cache, from packages pinned here. Nothing here needs
a GPU or a driver.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.system.real.cache import cache_dir, kernels

SCRIPTS = Path(__file__).parent / "families"


@dataclass(frozen=True)
class Environment:
    """A virtual environment; `steps` are the argument lists of one pip install each."""

    name: str
    steps: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Family:
    name: str
    script: str
    environment: Environment
    arguments: tuple[str, ...] = ()


# The CPU build of torch stands for tensors that no kernel touches.
TORCH = "torch==2.13.0"
TRITON = Environment("triton", (("triton==3.9.0", "numpy"),))
CUTLASS = Environment("cutlass", (("--no-deps", "nvidia-cutlass==4.2.0.0"),))
TILELANG = Environment("tilelang", ((TORCH,), ("tilelang==0.1.15",)))
DSL = ("triton==3.9.0", "numpy", "nvidia-cutlass-dsl==4.8.1")
QUACK = Environment("quack", ((TORCH,), (*DSL, "quack-kernels==0.6.5")))
FA4 = Environment("fa4", ((TORCH,), (*DSL, "quack-kernels==0.6.5", "flash-attn-4==4.0.0b36")))
TRITON_36 = Environment("triton-3.6", (("triton==3.6.0", "numpy"),))
FAMILIES = (
    Family("triton_plain", "triton_plain.py", TRITON),
    Family("triton_tma", "triton_tma.py", TRITON),
    Family("triton_more", "triton_more.py", TRITON),
    Family("triton_ws", "triton_ws.py", TRITON),
    Family("triton_ws_36", "triton_ws.py", TRITON_36),
    Family("quack", "quack_kernels.py", QUACK),
    Family("quack_rows", "quack_rows.py", QUACK),
    Family("fa4", "fa4_kernels.py", FA4),
    Family("gluon", "gluon.py", TRITON),
    Family("cutlass", "cutlass_kernels.py", CUTLASS),
    Family("tilelang", "tilelang_kernels.py", TILELANG),
    Family("tilelang_suite", "tilelang_suite.py", TILELANG),
)


def installed_here(environment: Environment) -> bool:
    """Whether this interpreter has the environment's pinned packages."""
    pins = [name.split("==") for step in environment.steps for name in step if "==" in name]
    try:
        return all(metadata.version(name) == pinned for name, pinned in pins)
    except metadata.PackageNotFoundError:
        return False


def python_of(environment: Environment, root: Path) -> Path:
    """The interpreter of the environment, made and filled if it is not there."""
    if installed_here(environment):
        return Path(sys.executable)
    home = root / "venvs" / environment.name
    python, stamp = home / "bin" / "python", home / "installed"
    wanted = repr(environment.steps)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    for packages in environment.steps:
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    stamp.write_text(wanted)
    return python


def generate(family: Family, root: Path, tiny: bool) -> None:
    """Writes the family's kernels and index; its output is in the log if it fails (`CalledProcessError`)."""
    out = root / family.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    variables = os.environ | {
        "PYTHONPATH": str(SCRIPTS),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": str(root / "venvs" / "triton-cache"),
    }
    log = root / "venvs" / f"{family.name}.log"
    command = [
        python_of(family.environment, root),
        "-W",
        "ignore",
        SCRIPTS / family.script,
        out,
        *family.arguments,
    ]
    command += ["--tiny"] if tiny else []
    with log.open("w") as sink:
        subprocess.run(command, check=True, env=variables, cwd=out, stdout=sink, stderr=subprocess.STDOUT)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.system.real.generate", description=__doc__)
    options.add_argument("--family", action="append", choices=[f.name for f in FAMILIES])
    options.add_argument("--tiny", action="store_true", help="a few kernels of the Triton families: for CI")
    chosen = options.parse_args()
    root, failed = cache_dir(), []
    for family in FAMILIES:
        if family.name not in (chosen.family or [f.name for f in FAMILIES]):
            continue
        if chosen.tiny and family.environment is not TRITON:
            continue
        start = time.perf_counter()
        try:
            generate(family, root, chosen.tiny)
        except (subprocess.CalledProcessError, OSError) as error:
            failed.append(f"{family.name}: {error}")
        count = sum(k.ptx.parent.name == family.name for k in kernels(root))
        print(f"{family.name:16} {count:4} kernels  {time.perf_counter() - start:6.1f} s", flush=True)
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
