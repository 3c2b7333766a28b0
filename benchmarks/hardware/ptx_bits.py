"""Integer and conversion instructions, and whole kernels, by the second reader and by a GPU: the same bits?

    python benchmarks/hardware/ptx_bits.py [--kernels 500] [--jobs N] [--out FILE] [--reader]

Every instruction of the tables below is a kernel, executed on all pairs of edge values and on random ones.
Then random kernels without mistakes (``tests/system/random_ptx``) run on both; words of the output that
depend on memory that nobody wrote are left out: those that two executions of the reader give differently.
Needs a GPU of compute capability 9.0 and the package cuda-python.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from syncverify.simulate.ptx import Buffer, Launch, buffer, run
from syncverify.simulate.ptx.conversions import bounds
from syncverify.simulate.ptx.syntax import parse
from tests.system.random_ptx.families import FAMILIES
from tests.system.random_ptx.judge import launch
from tests.system.random_ptx.writer import HEADER, Program, Writer

ROWS = 4096
_EDGES = [
    0, 1, 2, 3, 7, 15, 16, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
    0x3F800000, 0x3F800001, 0x477FEFFF, 0x477FF000, 0x4B7FFFFF, 0x4F000000, 0x5F000000, 0x7F7FFFFF,
    0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xBF000000, 0xBFC00000, 0xC0200000,
    0xCF000001, 0xFF800000, 0xFFFFFFFE, 0xFFFFFFFF, 0x00000001FFFFFFFF, 0x3FF0000000000000,
    0x3FE0000000000000, 0x41DFFFFFFFE00000, 0x43E0000000000000, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF,
    0x8000000000000000, 0xBFF8000000000000, 0xC3E0000000000000, 0xFFFFFFFFFFFFFFFF, 0x00800000,
    0x007FFFFF, 0x3C003C00, 0x7BFF0400, 0x03FF8001,
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An instruction on registers D, A, B, C, E of these widths (1: a predicate)."""

    text: str
    widths: tuple[int, ...]
    result: int


def cases() -> list[Case]:
    out: list[Case] = []

    def add(text: str, widths: tuple[int, ...], result: int) -> None:
        out.append(Case(text, widths, result))

    for k in ("u16", "s16", "u32", "s32", "u64", "s64"):
        n = int(k[1:])
        for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            add(f"{op}.{k} D, A, B;", (n, n), n)
        for op in ("div", "rem"):
            add(f"or.b{n} B, B, 1;\n{op}.{k} D, A, B;", (n, n), n)  # by zero: unspecified
        for op in ("lo", "hi"):
            add(f"mad.{op}.{k} D, A, B, C;", (n, n, n), n)
        if n < 64:
            add(f"mul.wide.{k} D, A, B;", (n, n), 2 * n)
            add(f"mad.wide.{k} D, A, B, C;", (n, n, 2 * n), 2 * n)
        add(f"shr.{k} D, A, B;", (n, 32), n)
        if k[0] == "s":
            for op in ("abs", "neg"):
                add(f"{op}.{k} D, A;", (n,), n)
        if n > 16:
            # Places and lengths beyond 255 are not taken alike for both widths.
            add(f"and.b32 B, B, 255;\nand.b32 C, C, 255;\nbfe.{k} D, A, B, C;", (n, 32, 32), n)
            for shift in ("", ".shiftamt"):
                add(f"bfind{shift}.{k} D, A;", (n,), 32)
        add(f"sad.{k} D, A, B, C;", (n, n, n), n)
        for how in ("eq", "ne", "lt", "le", "gt", "ge"):
            add(f"setp.{how}.{k} D, A, B;", (n, n), 1)
        for how in ("lt", "ge"):
            add(f"set.{how}.u32.{k} D, A, B;", (n, n), 32)
    for n in (16, 32, 64):
        for op in ("and", "or", "xor"):
            add(f"{op}.b{n} D, A, B;", (n, n), n)
        add(f"not.b{n} D, A;", (n,), n)
        add(f"cnot.b{n} D, A;", (n,), n)
        add(f"shl.b{n} D, A, B;", (n, 32), n)
    for n in (32, 64):
        for op in ("popc", "clz"):
            add(f"{op}.b{n} D, A;", (n,), 32)
        add(f"brev.b{n} D, A;", (n,), n)
        add(f"and.b32 C, C, 255;\nand.b32 E, E, 255;\nbfi.b{n} D, A, B, C, E;", (n, n, 32, 32), n)
    for op in ("add", "sub"):
        add(f"{op}.sat.s32 D, A, B;", (32, 32), 32)
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        add(f"prmt.b32{mode} D, A, B, C;", (32, 32, 32), 32)
    for side, how in itertools.product("lr", ("clamp", "wrap")):
        add(f"shf.{side}.{how}.b32 D, A, B, C;", (32, 32, 32), 32)
    for table in (0x00, 0x1B, 0x69, 0x96, 0xCA, 0xE8, 0xFE):
        add(f"lop3.b32 D, A, B, C, {table};", (32, 32, 32), 32)
    for a, b in itertools.product(("u32", "s32"), repeat=2):
        add(f"dp4a.{a}.{b} D, A, B, C;", (32, 32, 32), 32)
        for half in ("lo", "hi"):
            add(f"dp2a.{half}.{a}.{b} D, A, B, C;", (32, 32, 32), 32)
    for k in ("u32", "s32"):
        for half in ("lo", "hi"):
            add(f"mul24.{half}.{k} D, A, B;", (32, 32), 32)
        for how in ("wrap", "clamp"):
            add(f"szext.{how}.{k} D, A, B;", (32, 32), 32)
    for how in ("wrap", "clamp"):
        add(f"bmsk.{how}.b32 D, A, B;", (32, 32), 32)
    add("and.b32 B, B, 31;\nshr.s32 C, C, 1;\nfns.b32 D, A, B, C;", (32, 32, 32), 32)
    add("add.cc.u32 %x, A, B;\naddc.u32 D, C, E;", (32, 32, 32, 32), 32)
    add("sub.cc.u32 %x, A, B;\nsubc.u32 D, C, E;", (32, 32, 32, 32), 32)
    add("mad.lo.cc.u32 %x, A, B, C;\nmadc.hi.u32 D, A, B, E;", (32, 32, 32, 32), 32)
    for k in ("u16x2", "s16x2"):
        for op in ("add", "min", "max"):
            add(f"{op}.{k} D, A, B;", (32, 32), 32)
    out.extend(conversions())
    out.extend(floats())
    return out


def conversions() -> list[Case]:
    out = []
    integers = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
    width = {"u8": 16, "s8": 16, "f16": 16, "f32": 32, "f64": 64, "bf16": 16}
    width |= {k: int(k[1:]) for k in integers if k not in width}
    for a, b in itertools.product(integers, repeat=2):
        out.append(Case(f"cvt.{a}.{b} D, A;", (width[b],), width[a]))
        if bounds(b)[0] < bounds(a)[0] or bounds(b)[1] > bounds(a)[1]:
            out.append(Case(f"cvt.sat.{a}.{b} D, A;", (width[b],), width[a]))
    for a, b in itertools.product(integers, ("f16", "f32", "f64")):
        for how in ("rni", "rzi", "rmi", "rpi"):
            out.append(Case(f"cvt.{how}.{a}.{b} D, A;", (width[b],), width[a]))
        for how in ("rn", "rz", "rm", "rp"):
            out.append(Case(f"cvt.{how}.{b}.{a} D, A;", (width[a],), width[b]))
    for a, b in (("f16", "f32"), ("f32", "f64"), ("f16", "f64")):
        for how in ("rn", "rz", "rm", "rp"):
            out.append(Case(f"cvt.{how}.{a}.{b} D, A;", (width[b],), width[a]))
        out.append(Case(f"cvt.{b}.{a} D, A;", (width[a],), width[b]))
        out.append(Case(f"cvt.rn.sat.{a}.{b} D, A;", (width[b],), width[a]))
    for k in ("f32", "f64", "f16"):
        for how in ("rni", "rzi", "rmi", "rpi"):
            out.append(Case(f"cvt.{how}.{k}.{k} D, A;", (width[k],), width[k]))
    for how in ("rn", "rz"):
        for relu in ("", ".relu"):
            out.append(Case(f"cvt.{how}{relu}.f16x2.f32 D, A, B;", (32, 32), 32))
            out.append(Case(f"cvt.{how}{relu}.bf16x2.f32 D, A, B;", (32, 32), 32))
            out.append(Case(f"cvt.{how}{relu}.bf16.f32 D, A;", (32,), 16))
    out.append(Case("cvt.rna.tf32.f32 D, A;", (32,), 32))
    for k in ("e4m3x2", "e5m2x2"):
        out.append(Case(f"cvt.rn.satfinite.{k}.f32 D, A, B;", (32, 32), 16))
        out.append(Case(f"cvt.rn.f16x2.{k} D, A;", (16,), 32))
    for k in ("u8", "s8", "u16", "s16"):
        more = ", C" if k[1:] == "8" else ""
        text = f"cvt.pack.sat.{k}.s32.b32 D, A, B, C;" if more else f"cvt.pack.sat.{k}.s32 D, A, B;"
        out.append(Case(text, (32, 32, 32) if more else (32, 32), 32))
    return out


def floats() -> list[Case]:
    out = []
    for ftz, mode in itertools.product(("", ".ftz"), ("rn", "rz", "rm", "rp")):
        for op in ("add", "sub", "mul"):
            out.append(Case(f"{op}.{mode}{ftz}.f32 D, A, B;", (32, 32), 32))
        out.append(Case(f"fma.{mode}{ftz}.f32 D, A, B, C;", (32, 32, 32), 32))
        out.append(Case(f"div.{mode}{ftz}.f32 D, A, B;", (32, 32), 32))
        out.append(Case(f"sqrt.{mode}{ftz}.f32 D, A;", (32,), 32))
        out.append(Case(f"rcp.{mode}{ftz}.f32 D, A;", (32,), 32))
    for mode in ("rn", "rz", "rm", "rp"):
        for op in ("add", "mul", "div"):
            out.append(Case(f"{op}.{mode}.f64 D, A, B;", (64, 64), 64))
        out.append(Case(f"fma.{mode}.f64 D, A, B, C;", (64, 64, 64), 64))
    out.append(Case("add.rn.sat.f32 D, A, B;", (32, 32), 32))
    for k, n in (("f16", 16), ("f16x2", 32)):
        for op in ("add", "sub", "mul"):
            out.append(Case(f"{op}.rn.{k} D, A, B;", (n, n), n))
        out.append(Case(f"fma.rn.{k} D, A, B, C;", (n, n, n), n))
    for k, n in (("bf16", 16), ("bf16x2", 32)):
        out.append(Case(f"fma.rn.{k} D, A, B, C;", (n, n, n), n))
    for k, n in (("f32", 32), ("f64", 64), ("f16", 16), ("f16x2", 32), ("bf16", 16), ("bf16x2", 32)):
        for op in ("min", "max"):
            out.append(Case(f"{op}.{k} D, A, B;", (n, n), n))
            if k != "f64":
                out.append(Case(f"{op}.NaN.{k} D, A, B;", (n, n), n))
        out.append(Case(f"neg.{k} D, A;", (n,), n))
        out.append(Case(f"abs.{k} D, A;", (n,), n))
    for k, n in (("f32", 32), ("f64", 64), ("f16", 16)):
        for how in ("eq", "ne", "lt", "ge", "equ", "neu", "ltu", "geu", "num", "nan"):
            out.append(Case(f"setp.{how}.{k} D, A, B;", (n, n), 1))
    for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        out.append(Case(f"testp.{what}.f32 D, A;", (32,), 1))
    out.append(Case("copysign.f32 D, A, B;", (32, 32), 32))
    return out


def entry(n: int, case: Case) -> str:
    """A kernel that applies one instruction to its row."""
    text = [
        "mov.u32 %t, %tid.x;",
        "mov.u32 %c, %ctaid.x;",
        "mad.lo.u32 %t, %c, 256, %t;",
        "mul.wide.u32 %o, %t, 8;",
    ]
    names = {}
    for i, w in enumerate(case.widths):
        text += [f"ld.param.u64 %q, [p{i}];", "add.s64 %q, %q, %o;", f"ld.global.u64 %w{i}, [%q];"]
        name = {16: f"%h{i}", 32: f"%r{i}", 64: f"%w{i}"}[w]
        if w < 64:
            text.append(f"cvt.u{w}.u64 {name}, %w{i};")
        names["ABCE"[i]] = name
    names["D"] = {1: "%z", 16: "%hd", 32: "%rd", 64: "%wd"}[case.result]
    text.append(re.sub(r"\b([ABCDE])\b", lambda m: names[m[1]], case.text))
    match case.result:
        case 1:
            text.append("selp.u64 %wd, 1, 0, %z;")
        case 16 | 32:
            text.append(f"cvt.u64.u{case.result} %wd, {names['D']};")
    text += ["ld.param.u64 %q, [out];", "add.s64 %q, %q, %o;", "st.global.u64 [%q], %wd;", "ret;"]
    body = "\n    ".join(text)
    params = ", ".join(f".param .u64 {x}" for x in ("out", "p0", "p1", "p2", "p3"))
    return f""".visible .entry k{n}({params})
{{
    .reg .pred %z;
    .reg .b16 %h<4>, %hd;
    .reg .b32 %r<4>, %rd, %t, %c, %x;
    .reg .b64 %w<4>, %wd, %q, %o;
    {body}
}}
"""


def without_nan(case: Case, bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Results of which all NaN are one: their bits are not specified."""
    opcode = case.text.split("\n")[-1].split()[0]
    kinds = [w for w in opcode.split(".") if w in _NAN]
    if case.result == 1 or not kinds or (opcode.startswith("cvt") and opcode.split(".")[-2] not in _NAN):
        return bits
    kind = kinds[0]
    width, exponent, mantissa = _NAN[kind]
    out = bits.copy()
    for at in range(0, case.result, width):
        part = bits >> np.uint64(at)
        nan = (part & np.uint64(exponent) == exponent) & (part & np.uint64(mantissa) != 0)
        clear = ~np.uint64(((1 << width) - 1) << at)
        out = np.where(nan, (out & clear) | np.uint64((exponent | mantissa) << at), out)
    return out


#: Bits of an element, its exponent and its mantissa.
_NAN = {
    "f16": (16, 0x7C00, 0x3FF),
    "f16x2": (16, 0x7C00, 0x3FF),
    "bf16": (16, 0x7F80, 0x7F),
    "bf16x2": (16, 0x7F80, 0x7F),
    "f32": (32, 0x7F800000, 0x7FFFFF),
    "tf32": (32, 0x7F800000, 0x7FFFFF),
    "f64": (64, 0x7FF << 52, (1 << 52) - 1),
    "e5m2x2": (8, 0x7C, 3),
}


def operands() -> list[np.ndarray[Any, Any]]:
    """Four columns: all pairs of edge values, then random ones."""
    draw = np.random.default_rng(11)
    edges = np.array(_EDGES, np.uint64)
    pairs = np.array(list(itertools.product(edges, edges)), np.uint64)[:ROWS]
    out = [draw.integers(0, 2**64, ROWS, np.uint64) for _ in range(4)]
    out[0][: len(pairs)], out[1][: len(pairs)] = pairs[:, 0], pairs[:, 1]
    out[2][: len(pairs)] = edges[draw.integers(0, len(edges), len(pairs))]
    out[3][: len(pairs)] = edges[draw.integers(0, len(edges), len(pairs))]
    out[2][::3] &= np.uint64(0x3F)
    out[3][::3] &= np.uint64(0x3F)
    return out


class Gpu:
    """Modules and launches by the driver's API."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.d = driver
        self._ok(driver.cuInit(0))
        device = self._ok(driver.cuDeviceGet(0))
        self.context = self._ok(driver.cuDevicePrimaryCtxRetain(device))
        self._ok(driver.cuCtxSetCurrent(self.context))

    def _ok(self, result: Any) -> Any:
        error, *values = result
        if int(error):
            raise RuntimeError(f"driver: {error}")
        return values[0] if len(values) == 1 else values

    def module(self, text: str) -> Any:
        return self._ok(self.d.cuModuleLoadData(text.encode() + b"\0"))

    def launch(self, module: Any, name: str, grid: int, block: int, params: list[Any]) -> None:
        """``params``: device pointers (ints of 64 bits) and numbers of 32 bits, as (value, bits)."""
        function = self._ok(self.d.cuModuleGetFunction(module, name.encode()))
        held = [np.array([v], np.uint64 if bits == 64 else np.uint32) for v, bits in params]
        pointers = np.array([x.ctypes.data for x in held], np.uint64)
        self._ok(self.d.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, 0, pointers.ctypes.data, 0))
        self._ok(self.d.cuCtxSynchronize())

    def put(self, data: np.ndarray[Any, Any]) -> int:
        at = self._ok(self.d.cuMemAlloc(data.nbytes))
        self._ok(self.d.cuMemcpyHtoD(at, data.ctypes.data, data.nbytes))
        return int(at)

    def get(self, at: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.empty_like(like)
        self._ok(self.d.cuMemcpyDtoH(out.ctypes.data, at, out.nbytes))
        return out


def by_reader(n: int) -> tuple[str, np.ndarray[Any, Any]]:
    """One instruction by the second reader: 'ok' or what stopped it, and its results."""
    out = np.zeros(ROWS, np.uint64)
    result = buffer(out)
    params = (result, *map(buffer, operands()))
    launched = Launch((256, 1, 1), (ROWS // 256, 1, 1), params=params, watches=frozenset())
    try:
        r = run(parse(HEADER + entry(n, cases()[n])), f"k{n}", launched, limit=10**7)
    except Exception as e:  # what the reader does not know is a row of the table
        return f"{type(e).__name__}: {e}", out
    return "ok" if r.harm is None else str(r.harm), r.memory(result)


def instructions(gpu: Gpu | None, pool: ProcessPoolExecutor) -> list[dict[str, Any]]:
    """Each instruction on both; without a GPU the reader alone, to see that it knows them all."""
    columns = operands()
    found = []
    devices = [gpu.put(x) for x in columns] if gpu else []
    out = np.zeros(ROWS, np.uint64)
    target = gpu.put(out) if gpu else 0
    everything = cases()
    for n, (how, mine) in enumerate(pool.map(by_reader, range(len(everything)), chunksize=8)):
        case = everything[n]
        text = HEADER + entry(n, case)
        row: dict[str, Any] = {"instruction": case.text, "reader": how}
        if gpu and how == "ok":
            try:
                module = gpu.module(text)
                gpu.launch(module, f"k{n}", ROWS // 256, 256, [(target, 64), *((d, 64) for d in devices)])
            except RuntimeError as e:
                row["gpu"] = str(e)
                found.append(row)
                continue
            theirs = gpu.get(target, out)
            bad = np.flatnonzero(without_nan(case, mine) != without_nan(case, theirs))
            row["differ"] = len(bad)
            if len(bad):
                row["first"] = [
                    [
                        *(hex(int(c[i])) for c in columns[: len(case.widths)]),
                        hex(int(mine[i])),
                        hex(int(theirs[i])),
                    ]
                    for i in bad[:6].tolist()
                ]
        found.append(row)
    return found


def right_program(seed: int) -> Program:
    """A program without a mistake, of one block."""
    names = [f for f in FAMILIES if f != "remote"]
    return FAMILIES[names[seed % len(names)]](Writer(seed))


def twice(seed: int) -> list[np.ndarray[Any, Any] | None]:
    """The output of a program in two executions by the reader, None where there was harm."""
    p = right_program(seed)
    results = []
    for s in (1, 2):
        launched = launch(p)
        r = run(p.text, "k", launched, seed=s)
        out = launched.params[1]
        results.append(r.memory(out) if r.harm is None and isinstance(out, Buffer) else None)
    return results


def kernels(gpu: Gpu, count: int, pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Random right programs on both: the final memory."""
    same, differ = 0, []
    for seed, results in enumerate(pool.map(twice, range(count), chunksize=4)):
        p = right_program(seed)
        if results[0] is None or results[1] is None:
            differ.append({"seed": seed, "family": p.family, "why": "harm"})
            continue
        data = [x.data for x in launch(p).params if isinstance(x, Buffer)]
        places = [gpu.put(x) for x in data]
        given, at = [], iter(places)
        for v in p.params:
            given.append((next(at), 64) if v is None else (v, 32))
        gpu.launch(gpu.module(p.text), "k", 1, p.block, given)
        theirs = gpu.get(places[1], data[1])
        fixed = results[0] == results[1]
        if (theirs[fixed] == results[0][fixed]).all():
            same += 1
        else:
            bad = int(np.flatnonzero(fixed & (theirs != results[0]))[0])
            differ.append(
                {
                    "seed": seed,
                    "family": p.family,
                    "word": bad,
                    "reader": int(results[0][bad]),
                    "gpu": int(theirs[bad]),
                }
            )
    return {"same": same, "differ": differ}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--reader", action="store_true", help="without a GPU: which instructions the reader knows"
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    begin = time.monotonic()
    # The children begin before the driver does, which bears no fork.
    pool = ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn"))
    gpu = None if args.reader else Gpu()
    rows = instructions(gpu, pool)
    report: dict[str, Any] = {
        "command": " ".join(sys.argv),
        "instructions": len(rows),
        "the same on all rows": sum(r.get("differ") == 0 for r in rows),
        "others": [r for r in rows if r.get("differ") != 0 and (gpu or r.get("reader") != "ok")],
    }
    if gpu:
        report["kernels"] = kernels(gpu, args.kernels, pool)
    report["seconds"] = round(time.monotonic() - begin, 1)
    print(json.dumps(report, indent=1))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
