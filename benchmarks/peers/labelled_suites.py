"""Labelled kernels of other tools' suites: their labels beside verdicts.

    python benchmarks/peers/labelled_suites.py [--gpuverify DIR] [--faial DIR] [--sanitizer DIR] [--weft DIR]
        [--indigo DIR] [--consan DIR] [--match TEXT] [--out FILE]

Each folder is a checkout of github.com/mc-imperial/gpuverify, github.com/cogumbreiro/faial (any copy),
github.com/NVIDIA/compute-sanitizer-samples, github.com/lightsighter/Weft or github.com/burtscher/IndigoSuite,
whose own generator writes its codes. That of ConSan is what consan_cases.py writes. Nothing of them is kept.
Kernels that name neither shared memory nor a barrier are left out. CUDA is compiled by NVRTC, OpenCL is first
written as CUDA by a few replacements, and files with host code are compiled by nvcc.

``agree``: right and proved, or wrong and refuted. ``missed``: wrong and proved; ``gone`` if no shared access
and no barrier is left in the PTX, ``contested`` if a warning names a contested point. ``alarm``: right and
refuted. What neither tool's claim covers is told apart by hand, in docs/suites.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import syncverify  # noqa: E402
from syncverify.base.diagnostics import Severity  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from syncverify.frontends.cuda.to_ptx import compile_cuda  # noqa: E402

SECONDS = 20.0
_TOUCHES = re.compile(r"__shared__|__local\b|\blocal\b|__syncthreads|\bbarrier\s*\(|__syncwarp")
#: Annotations of GPUVerify and Faial mean nothing to the kernel itself; OpenCL's functions by CUDA's.
_SHIM = """
#define __requires(...) 0
#define __ensures(...) 0
#define __invariant(...) 0
#define __global_invariant(...) 0
#define __function_wide_invariant(...) 0
#define __candidate_invariant(...) 0
#define __assert(...) 0
#define __assume(...) 0
#define __bugle_assert(...) 0
#define assert(...) 0
#define __barrier_invariant(...) 0
#define __barrier_invariant_1(...) 0
#define __barrier_invariant_2(...) 0
#define __barrier_invariant_binary(...) 0
"""
_OPENCL = """
#define get_local_id(d) ((int)((d) == 0 ? threadIdx.x : (d) == 1 ? threadIdx.y : threadIdx.z))
#define get_group_id(d) ((int)((d) == 0 ? blockIdx.x : (d) == 1 ? blockIdx.y : blockIdx.z))
#define get_local_size(d) ((int)((d) == 0 ? blockDim.x : (d) == 1 ? blockDim.y : blockDim.z))
#define get_num_groups(d) ((int)((d) == 0 ? gridDim.x : (d) == 1 ? gridDim.y : gridDim.z))
#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))
#define get_global_size(d) (get_num_groups(d) * get_local_size(d))
#define barrier(...) __syncthreads()
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define atomic_add atomicAdd
#define atom_add atomicAdd
#define atomic_inc(p) atomicAdd(p, 1)
#define atomic_xchg atomicExch
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
"""


#: The head of a kernel, its parameters, its opening brace.
_HEADER = re.compile(r"((?:__kernel|\bkernel\b)[^({;]*)\(([^(){}]*)\)\s*\{")


@dataclass(frozen=True)
class Case:
    """One kernel file of a suite. ``wrong``: its label; ``opencl``: its language."""

    suite: str
    name: str
    path: Path
    wrong: bool
    block: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()
    opencl: bool = False
    host: bool = False  # it has host code, for nvcc
    include: Path | None = None  # where its headers lie


@dataclass
class Row:
    suite: str
    name: str
    label: str
    verdict: str
    rule: str
    line: int
    message: str
    kind: str
    seconds: float


def _numbers(text: str, *names: str) -> tuple[int, ...]:
    for name in names:
        found = re.search(rf"--{name}=\[?([\d, ]+)\]?", text)
        if found:
            return tuple(int(x) for x in found[1].split(",") if x.strip())
    return ()


def gpuverify(checkout: Path) -> Iterator[Case]:
    for path in sorted((checkout / "testsuite").rglob("kernel.c*")):
        text = path.read_text(errors="replace")
        first = text.splitlines()[0].strip().lower() if text else ""
        if first not in ("//pass", "//xfail:not_all_verified") or not _TOUCHES.search(text):
            continue
        block = _numbers(text, "blockDim", "local_size")
        grid = _numbers(text, "gridDim", "num_groups")
        whole = _numbers(text, "global_size")
        if not grid and whole and len(whole) == len(block):
            grid = tuple(max(w // b, 1) for w, b in zip(whole, block, strict=True))
        name = str(path.parent.relative_to(checkout / "testsuite"))
        yield Case("gpuverify", name, path, first != "//pass", block, grid, path.suffix == ".cl")


def faial(checkout: Path) -> Iterator[Case]:
    for path in sorted((checkout / "examples").rglob("*.cu")):
        text = path.read_text(errors="replace")
        label = re.match(r"(drf|racy)", path.name)
        if label is None or not _TOUCHES.search(text):
            continue
        sizes = _numbers(text, "blockDim"), _numbers(text, "gridDim")
        yield Case("faial", path.stem, path, label[1] == "racy", *sizes)


def _threads(path: Path) -> tuple[int, ...]:
    """The block that a file with host code, or a bound, is launched with."""
    found = re.search(r"(?:__launch_bounds__\(|NumThreads\s*=\s*)(\d+)", path.read_text())
    return (int(found[1]),) if found else ()


def sanitizer(checkout: Path) -> Iterator[Case]:
    for folder in ("Racecheck", "Synccheck"):
        for path in sorted((checkout / folder).glob("*.cu")):
            yield Case("sanitizer", f"{folder}/{path.stem}", path, True, _threads(path), (1,), host=True)


def weft(checkout: Path) -> Iterator[Case]:
    for path in sorted((checkout / "examples" / "negatives").glob("*.cu")):
        yield Case("weft", path.stem, path, True, _threads(path), (1,), host=True)


def indigo(checkout: Path) -> Iterator[Case]:
    """The codes of a block that the suite's generator writes; a name says which bugs a code has."""
    generators = checkout / "Generators"
    with tempfile.TemporaryDirectory() as folder:
        for pattern in sorted((generators / "CUDA_sources").glob("*.idg")):
            if not _TOUCHES.search(pattern.read_text(errors="replace")):
                continue
            script, rights = generators / "generate_CUDA_codes.py", checkout / "copyright.txt"
            command = [sys.executable, str(script), str(pattern), str(rights), folder]
            subprocess.run(command, cwd=generators, capture_output=True, check=True)
        for path in sorted(Path(folder).rglob("*.cu")):
            headers = generators / "sources_include"
            wrong = "Bug" in path.stem
            yield Case("indigo", path.stem, path, wrong, (256,), (2,), host=True, include=headers)


def consan(folder: Path) -> Iterator[Case]:
    """What ``consan_cases.py`` has compiled: PTX with launch files, and the labels of the tests."""
    labels = json.loads((folder / "labels.json").read_text())
    for path in sorted(folder.glob("*.ptx")):
        yield Case("consan", path.stem, path, labels[path.stem] == "wrong")


def _local_arrays(header: re.Match[str]) -> str:
    """The head of an OpenCL kernel whose local pointers become arrays of its own."""
    kept, arrays = [], []
    for parameter in header[2].split(","):
        found = re.fullmatch(r"\s*(?:__local|local)\s+(?:volatile\s+)?([\w\s]+?)\s*\*\s*(\w+)\s*", parameter)
        if found is None:
            kept.append(parameter)
        else:
            arrays.append(f"__shared__ {found[1]} {found[2]}[2048];")
    return f"{header[1]}({','.join(kept)}) {{ {' '.join(arrays)}"


def as_cuda(text: str) -> str:
    """OpenCL as CUDA: qualifiers of parameters and pointers go, local variables are shared."""
    text = re.sub(r"#pragma OPENCL.*", "", text)
    text = _HEADER.sub(_local_arrays, text)
    text = re.sub(r"\b(__kernel|kernel)\b", 'extern "C" __global__', text)
    text = re.sub(r"\b(__global|__constant|__private|global|constant)\b", "", text)
    text = re.sub(r"\b(?:__local|local)\b(?=[^;=(){}]*\*)", "", text)
    text = re.sub(r"\b(?:__local|local)\b(?=[^;{}]*[;])", "__shared__", text)
    return re.sub(r"\b(?:__local|local)\b", "", text)


def ptx_of(case: Case, work: Path) -> str:
    text = case.path.read_text(errors="replace")
    if case.path.suffix == ".ptx":
        return text
    if case.host:
        out = work / "k.ptx"
        headers = [f"-I{case.include}"] if case.include else []
        command = ["nvcc", "-ptx", "-arch=sm_90a", *headers, str(case.path), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(done.stderr.strip().splitlines()[0])
        return out.read_text()
    text = re.sub(r'#include\s*[<"](?:cuda|opencl|common|annotations/\w+)\.h[>"]', "", text)
    source = _SHIM + (_OPENCL + as_cuda(text) if case.opencl else text)
    path = work / "k.cu"
    path.write_text(source)
    return compile_cuda(path)


def check(case: Case, work: Path, seconds: float = SECONDS, replay: bool = True) -> list[Row]:
    label = "wrong" if case.wrong else "right"
    start = time.perf_counter()

    def row(verdict: str, rule: str, line: int, message: str, kind: str) -> Row:
        seconds = round(time.perf_counter() - start, 2)
        return Row(case.suite, case.name, label, verdict, rule, line, message[:160], kind, seconds)

    try:
        ptx = ptx_of(case, work)
    except (InputError, OSError) as e:
        return [row("error", "", 0, str(e), "does not compile")]
    own: dict[str, Any] = {"block": list(case.block) or [64], "grid": list(case.grid) or [2]}
    beside = Path(f"{case.path}.launch.toml")
    facts: Any = beside if beside.exists() else {"kernel": {"*": own}}
    try:
        reports = syncverify.check(ptx, facts=facts, timeout=seconds, replay=replay)
    except InputError as e:
        return [row("error", "", 0, str(e), "error")]
    verdicts = [str(r.verdict) for r in reports]
    worst = next((v for v in ("refuted", "unknown") if v in verdicts), "proved")
    report = next(r for r in reports if str(r.verdict) == worst)
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    left = re.search(r"\.shared|\bbar\.|\bbarrier\.", ptx)
    if worst == "unknown":
        kind = "unknown"
    elif case.wrong:
        told = any(d.contested for r in reports for d in r.diagnostics)
        kind = "agree" if worst == "refuted" else "contested" if told else "missed" if left else "gone"
    else:
        kind = "agree" if worst == "proved" else "alarm"
    shown = (
        ("", 0, str(report.reason or "")) if first is None else (first.rule, first.span.line, first.message)
    )
    return [row(worst, *shown, kind)]


def _folder(text: str) -> Path:
    """A checkout by its whole path, as a suite's own generator runs in a folder of it."""
    return Path(text).resolve()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites = {
        "gpuverify": gpuverify,
        "faial": faial,
        "sanitizer": sanitizer,
        "weft": weft,
        "indigo": indigo,
        "consan": consan,
    }
    for name in suites:
        parser.add_argument(f"--{name}", type=_folder, metavar="DIR")
    parser.add_argument("--match", default="")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each kernel")
    parser.add_argument("--no-replay", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        for name, cases in suites.items():
            checkout = getattr(args, name)
            for case in cases(checkout) if checkout else ():
                if args.match in case.name:
                    rows += check(case, Path(work), args.seconds, not args.no_replay)
                    if rows[-1].kind != "agree":
                        print(vars(rows[-1]), flush=True)
    for name in suites:
        print(name, dict(Counter(r.kind for r in rows if r.suite == name)))
    if args.out:
        args.out.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
