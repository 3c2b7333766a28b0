"""The host's time of one call of a small compiled function, and of the parts of a launch, on a Hopper GPU.

    python benchmarks/hardware/torch_host.py --out DIR

Microseconds, the least of several rounds; the GPU has less to do than the host in all of them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

ROUNDS, CALLS = 7, 300


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def added(x: Any, r: Any, w: Any) -> Any:
    h = x + r
    return F.rms_norm(h, (h.shape[-1],), w, 1e-6), h


def softmax(x: Any) -> Any:
    return torch.softmax(x * 2.0, -1)


def timed(run: Callable[[], Any]) -> float:
    for _ in range(30):
        run()
    best = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            run()
        best = min(best, (time.perf_counter() - start) / CALLS)
    torch.cuda.synchronize()
    return round(best * 1e6, 2)


def functions() -> dict[str, dict[str, float]]:
    x = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(1024, device="cuda", dtype=torch.bfloat16)
    cases = {"rms_norm": (norm, (x, w)), "add_rms_norm": (added, (x, x, w)), "softmax": (softmax, (x,))}
    found: dict[str, dict[str, float]] = {}
    for name, (function, given) in cases.items():
        found[name] = {"eager": timed(lambda f=function, g=given: f(*g))}  # type: ignore[misc]
        for backend in ("eager", "aot_eager", "inductor", "syncverify"):
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=backend)
            for _ in range(3):
                torch.testing.assert_close(compiled(*given), function(*given), rtol=2e-2, atol=2e-2)
            found[name][f"compiled by {backend}"] = timed(lambda f=compiled, g=given: f(*g))  # type: ignore[misc]
        print(name, found[name], flush=True)
    return found


def parts() -> dict[str, float]:
    """What a launch consists of."""
    from syncverify.codegen import driver

    x = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
    device, shape = x.device, [64, 1024]
    own = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    library = ctypes.CDLL("libcuda.so.1")
    current = library.cuCtxSetCurrent
    current.argtypes, current.restype = [ctypes.c_void_p], ctypes.c_int
    context = driver.context(0)
    module = torch.nn.Identity()
    runs: dict[str, Callable[[], Any]] = {
        "torch.empty": lambda: torch.empty(shape, dtype=torch.bfloat16, device=device),
        "new_empty": lambda: x.new_empty(shape),
        "empty_strided": lambda: torch.empty_strided(shape, [1024, 1], dtype=torch.bfloat16, device=device),
        "data_ptr": lambda: x.data_ptr(),
        "is_contiguous": lambda: x.is_contiguous(),
        "contiguous": lambda: x.contiguous(),
        "stride": lambda: x.stride(),
        "requires_grad": lambda: x.requires_grad,
        "device.index": lambda: x.device.index,
        "isinstance": lambda: isinstance(x, torch._subclasses.fake_tensor.FakeTensor),
        "current device": lambda: torch.cuda.current_device(),
        "exchange device": lambda: torch._C._cuda_getDevice(),
        "raw stream": lambda: torch._C._cuda_getCurrentRawStream(0),
        "capturing": lambda: torch.cuda.is_current_stream_capturing(),
        "binding: set context": lambda: driver.use_device(0),
        "ctypes: set context": lambda: current(context),
        "module call": lambda: module(x),
        "empty call": lambda: None,
    }
    if own is not None:
        runs["_empty_strided_cuda"] = lambda: own((64, 1024), (1024, 1), torch.bfloat16)
    return {name: timed(run) for name, run in runs.items()} | launches()


def launches() -> dict[str, float]:
    """A launch by the binding and by ctypes with parameters that are packed once."""
    from syncverify.codegen import driver
    from syncverify.fusion import Tensor, rms_norm, trace
    from syncverify.gate import compiler, fusions

    rows, weight = Tensor("bf16", ("R", "C")), Tensor("bf16", ("C",))
    kernel = compiler.compile(trace(lambda x, w: rms_norm(x, w), {"x": rows, "w": weight}))
    x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(x)
    sizes = {"R": 64, "C": 4096}
    values = kernel.launch_values(sizes, driver.multiprocessors(0))
    program = kernel.program(sizes)
    program.require_proof(values)
    places = [x.data_ptr(), w.data_ptr(), out.data_ptr()]
    addresses = dict(zip(("x", "w", kernel.fusion.outputs[0].name), places, strict=True))
    launcher = fusions.launcher(program, values, 0, tuple(addresses))
    found = {
        "gate.launch": timed(lambda: fusions.launch(program, addresses, values, 0, 0)),
        "gate.launcher": timed(lambda: launcher(places, 0)),
    }
    found["custom call"] = timed(lambda: kernel(x, w, out=out))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_grad_enabled(False)
    found: dict[str, Any] = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
    for name, step in (("calls", functions), ("parts", parts)):
        found[name] = step()
        (args.out / "torch_host.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
