"""The other row kernels of quack: every module that computes rows, backward and helpers, one kernel each."""

import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from cute_trace import Tracer, restart_with_probe
from emit import Emitter

ROWS = (8, 12, 20)


def cases(tracer: Tracer) -> None:
    import torch

    norm, topk, rotary, final, split = (
        import_module(f"quack.{n}")
        for n in ("rmsnorm", "topk", "rotary", "rms_final_reduce", "split_k_reduce")
    )

    def of(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype)

    def f32(*shape):
        return of(*shape, dtype=torch.float32)

    def norm_backward(n, c, layer):
        more = {"mean": f32(n), "is_layernorm": True} if layer else {}
        bias = f32(4, c) if layer else None
        norm._rmsnorm_bwd(
            of(n, c), f32(c), of(n, c), f32(n), of(n, c), f32(4, c), bias, None, None, 4, **more
        )

    def add(name, call, covers, holds=None):
        tracer.case(name, call, ROWS, "ROWS", covers, holds)

    add("rmsnorm_backward", lambda n: norm_backward(n, 4096, False), ["reduction", "persistent"])
    add("rmsnorm_backward_cluster", lambda n: norm_backward(n, 32768, False), ["reduction", "cluster"])
    add("layernorm_backward", lambda n: norm_backward(n, 4096, True), ["reduction", "persistent"])
    add(
        "topk_softmax",
        lambda n: topk._topk_fwd(of(n, 1024), 16, True, of(n, 16), of(n, 16, dtype=torch.int32)),
        ["reduction"],
    )
    add(
        "topk_backward",
        lambda n: topk._topk_bwd(of(n, 16), of(n, 16), of(n, 16, dtype=torch.int32), 16, True, of(n, 1024)),
        ["reduction"],
        {"T2": ("i32", [64 * j for _ in range(ROWS[0]) for j in range(16)])},  # the places of the largest
    )
    for name, interleaved in (("rotary", False), ("rotary_interleaved", True)):
        add(
            name,
            lambda n, i=interleaved: rotary._launch_rotary(
                of(2, n, 4, 128), of(n, 64), of(n, 64), None, None, of(2, n, 4, 128), n, i, False
            ),
            ["pointwise"],
        )
    add(
        "rms_final_reduce",
        lambda n: final._rms_final_reduce_out(f32(n, 64), f32(n), 1.0, 1e-6),
        ["reduction"],
    )
    add(
        "split_k_reduce",
        lambda n: split._split_k_reduce_out(
            f32(4, n, 512), of(1, n, 512), 4, False, 1.0, None, 1.0, None, None, None, None
        ),
        ["split-k"],
    )


def main(out: Path) -> None:
    folder = restart_with_probe()
    dsl = version("nvidia-cutlass-dsl")
    tracer = Tracer(
        Emitter(out, f"quack-kernels {version('quack-kernels')}, cutlass-dsl {dsl}", "quack"), folder
    )
    tracer.install()
    cases(tracer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
