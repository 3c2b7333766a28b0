"""Small PTX kernels around one instruction, and launches of the kernels in the corpus."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from syncverify.simulate.ptx import Launch, Result, TensorMap, buffer, run
from syncverify.simulate.ptx.syntax import Module, parse_file

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LANES = 32
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def kernel(body: str, params: str = ".param .u64 out", name: str = "k", before: str = "") -> str:
    """A kernel with registers of all types, ``%r1`` the thread, ``%rd1`` the first parameter."""
    return f"""{HEADER}{before}
.visible .entry {name}({params})
{{
    .reg .pred %p<20>;
    .reg .b8 %rb<8>;
    .reg .b16 %rs<40>;
    .reg .b32 %r<100>;
    .reg .b64 %rd<60>;
    .reg .f32 %f<60>;
    .reg .f64 %fd<20>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [out];
{body}
    ret;
}}
"""


def apply(
    instruction: str, widths: list[int], result: int, operands: list[list[int]], setup: str = ""
) -> list[int]:
    """The results of an instruction for each row of operands, as unsigned bits.

    ``instruction`` names its destination ``D`` and its operands ``A``, ``B``, ``C``, ``E``; a width of 1 is a
    predicate. Rows are padded to whole warps.
    """
    rows = len(operands)
    threads = -(-rows // LANES) * LANES
    padded = operands + [operands[-1]] * (threads - rows)
    text = [setup, "mov.u32 %r90, %ctaid.x;", "mad.lo.u32 %r1, %r90, 32, %r1;"]
    names = {}
    for n, width in enumerate(widths):
        letter = "ABCE"[n]
        bits = max(width, 8) if width != 1 else 32
        text.append(f"ld.param.u64 %rd{30 + n}, [in{n}];")
        text.append(f"mad.wide.u32 %rd{30 + n}, %r1, {bits // 8}, %rd{30 + n};")
        register = {
            1: f"%r{50 + n}",
            8: f"%rs{20 + n}",
            16: f"%rs{20 + n}",
            32: f"%r{50 + n}",
            64: f"%rd{40 + n}",
        }[width]
        text.append(f"ld.global.b{bits} {register}, [%rd{30 + n}];")
        if width == 1:
            text.append(f"setp.ne.u32 %p{10 + n}, {register}, 0;")
            register = f"%p{10 + n}"
        names[letter] = register
    target = {1: "%p1", 16: "%rs1", 32: "%r2", 64: "%rd2"}[result]
    names["D"] = target
    text.append(re.sub(r"\b([ABCDE])\b", lambda m: names[m[1]], instruction))
    if result == 1:
        text.append("selp.u32 %r2, 1, 0, %p1;")
        target, result = "%r2", 32
    text.append(f"mad.wide.u32 %rd1, %r1, {result // 8}, %rd1;")
    text.append(f"st.global.b{result} [%rd1], {target};")
    params = ", ".join([".param .u64 out", *(f".param .u64 in{n}" for n in range(len(widths)))])
    out = buffer(np.zeros(threads, _UNSIGNED[result]))
    columns = [
        buffer(np.array([r[n] for r in padded], _UNSIGNED[32 if w == 1 else max(w, 8)]))
        for n, w in enumerate(widths)
    ]
    launch = Launch(block=(LANES, 1, 1), grid=(threads // LANES, 1, 1), params=(out, *columns))
    ended = run(kernel("\n".join(text), params), "k", launch, seed=1)
    assert ended.harm is None, ended.harm
    return [int(x) for x in ended.memory(out)[:rows]]


def execute(
    body: str,
    out: Any,
    *more: Any,
    block: int = 32,
    seed: int = 0,
    params: str = "",
    before: str = "",
    **launch: Any,
) -> Result:
    """Runs a body whose first parameter is ``out``."""
    text = kernel(body, ".param .u64 out" + params, before=before)
    return run(text, "k", Launch(block=(block, 1, 1), params=(out, *more), **launch), seed=seed)


def corpus_launch(path: Path, module: Module, constants: bool = False) -> Launch:
    """The launch that a corpus kernel's facts describe; memory behind pointers is drawn.

    ``constants``: words of the const space are 1 instead of their initializers, which the host may change.
    """
    text = path.read_text()
    name = module.entries[0].name
    facts_at = Path(f"{path}.launch.toml")
    if facts_at.exists():
        facts = tomllib.loads(facts_at.read_text())["kernel"][name]
    else:
        block, grid = re.search(r"block: (\d+)", text), re.search(r"grid: (\d+)", text)
        facts = {"block": [int(block[1]) if block else 64], "grid": [int(grid[1]) if grid else 1]}
    draw = np.random.default_rng(0)
    params: list[Any] = []
    for i, v in enumerate(module.entries[0].params):
        given = facts.get("params", {}).get(str(i), "ptr" if v.type == "u64" else {"i32": 64})
        if given == "ptr" or "ptr" in given:  # a map behind a pointer is made there by the kernel
            params.append(buffer(draw.integers(0, 1000, 1 << 16).astype(np.uint32)))
        elif "i32" in given:
            params.append(given["i32"] if isinstance(given["i32"], int) else 300)  # a size by name
        else:
            box = tuple(given["box"])
            dims = tuple(4 * b for b in box)
            data = buffer(draw.random(int(np.prod(dims))).astype(np.float32))
            params.append(TensorMap(data, dims, (4 * dims[0],), box))
    extern = any(v.extern for v in (*module.variables, *module.entries[0].variables))

    def three(values: list[int]) -> tuple[int, int, int]:
        x, y, z = [*values, 1, 1][:3]
        return x, y, z

    return Launch(
        block=three(facts["block"]),
        grid=three(facts.get("grid", [1])),
        cluster=three(facts.get("cluster", [1])),
        params=params,
        shared=4096 if extern else 0,
        variables={
            v.name: np.ones(v.size // 4, np.uint32)
            for v in module.variables
            if constants and v.space == "const"
        },
        # Kernels without launch facts store to one word of global memory to keep a value alive.
        watches=frozenset({"shared", "global"}) if facts_at.exists() else frozenset({"shared"}),
    )


def expected(path: Path) -> str:
    """proved, refuted or unknown, as the file's header says."""
    found = re.search(r"// expect: (\w+)", path.read_text())
    assert found, path
    return found[1]


__all__ = ["apply", "corpus_launch", "execute", "expected", "kernel", "parse_file"]
