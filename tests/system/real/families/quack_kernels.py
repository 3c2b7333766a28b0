"""The kernels of quack, through its own functions: normalizations, softmax, cross entropy, top-k, GEMMs."""

import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from cute_trace import Tracer, restart_with_probe
from emit import Emitter


def cases(tracer: Tracer) -> None:
    import torch

    # The package has functions of its modules' names.
    ce, norm, softmax, topk = (
        import_module(f"quack.{n}") for n in ("cross_entropy", "rmsnorm", "softmax", "topk")
    )
    gemm = import_module("quack.gemm").gemm

    case = tracer.case
    rows = (8, 12, 20)

    def half(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype)

    def run_softmax(n, cols, dtype=torch.bfloat16):
        softmax._softmax_fwd(half(n, cols, dtype=dtype), half(n, cols, dtype=dtype))

    for cols in (1024, 8192, 32768):
        case(f"softmax_{cols}", lambda n, c=cols: run_softmax(n, c), rows, "ROWS", ["reduction"])
    case("softmax_ragged", lambda n: run_softmax(n, 1000, torch.float32), rows, "ROWS", ["reduction"])
    case(
        "softmax_backward",
        lambda n: softmax._softmax_backward(half(n, 4096), half(n, 4096), half(n, 4096)),
        rows,
        "ROWS",
        ["reduction"],
    )
    case(
        "softmax_backward_cluster",
        lambda n: softmax._softmax_backward(half(n, 65536), half(n, 65536), half(n, 65536)),
        rows,
        "ROWS",
        ["reduction", "cluster"],
    )
    for cols in (2048, 65536):
        case(
            f"rmsnorm_{cols}",
            lambda n, c=cols: norm.rmsnorm_fwd(half(n, c), half(c, dtype=torch.float32)),
            rows,
            "ROWS",
            ["reduction"],
        )
    case(
        "layernorm_4096",
        lambda n: norm.layernorm_fwd(half(n, 4096), half(4096, dtype=torch.float32)),
        rows,
        "ROWS",
        ["reduction"],
    )
    for cols in (4096, 131072):
        case(
            f"cross_entropy_{cols}",
            lambda n, c=cols: ce.cross_entropy_fwd(half(n, c), half(n, dtype=torch.int64)),
            rows,
            "ROWS",
            ["reduction"],
        )
    case(
        "cross_entropy_backward",
        lambda n: ce.cross_entropy_bwd(
            half(n, 4096),
            half(n, dtype=torch.int64),
            half(n, dtype=torch.float32),
            half(n, dtype=torch.float32),
        ),
        rows,
        "ROWS",
        ["reduction"],
    )
    case(
        "topk",
        lambda n: topk._topk_fwd(half(n, 1024), 16, False, half(n, 16), half(n, 16, dtype=torch.int32)),
        rows,
        "ROWS",
        ["reduction"],
    )

    def run_gemm(
        k, tile=(128, 128), cluster=(1, 1), dtype=torch.bfloat16, out=torch.bfloat16, c=False, **options
    ):
        m, n = options.pop("rows", 512), 512
        source = half(1, m, n, dtype=out) if c else None
        gemm(
            half(1, m, k, dtype=dtype),
            half(1, n, k, dtype=dtype),
            half(1, m, n, dtype=out),
            source,
            options.pop("semaphore", None),
            *tile,
            *cluster,
            **options,
        )

    ks = (256, 384, 640)
    case("gemm", lambda k: run_gemm(k), ks, "K", ["cooperative", "persistent"])
    case("gemm_one_tile", lambda k: run_gemm(k, persistent=False), ks, "K", ["warp-specialized"])
    case(
        "gemm_pingpong", lambda k: run_gemm(k, (64, 128), pingpong=True), ks, "K", ["ping-pong", "persistent"]
    )
    case("gemm_cluster2", lambda k: run_gemm(k, (128, 128), (2, 1)), ks, "K", ["cluster", "persistent"])
    case("gemm_256_cluster2", lambda k: run_gemm(k, (256, 128), (2, 1)), ks, "K", ["cluster", "persistent"])
    case("gemm_fp8", lambda k: run_gemm(k, dtype=torch.float8_e4m3fn), ks, "K", ["fp8", "persistent"])
    case("gemm_source", lambda k: run_gemm(k, c=True, beta=0.5), ks, "K", ["cooperative", "source"])
    case(
        "gemm_pingpong_source",
        lambda k: run_gemm(k, (64, 128), c=True, pingpong=True),
        ks,
        "K",
        ["ping-pong", "source"],
    )
    tiles = torch.zeros(1, dtype=torch.int32)  # handed out so far; it crosses as an address
    case(
        "gemm_dynamic",
        lambda k: run_gemm(k, rows=256, is_dynamic_persistent=True, semaphore=tiles),
        ks,
        "K",
        ["dynamic scheduler"],
        {"tiles": ("i32", [0])},
        {tiles.data_ptr(): "tiles"},
    )
    case(
        "gemm_bias",
        lambda k: run_gemm(k, rowvec_bias=half(1, 512, dtype=torch.float32)),
        ks,
        "K",
        ["bias", "persistent"],
    )
    case("gemm_split_k", lambda k: run_gemm(k, split_k=2), ks, "K", ["split-k"])
    case("gemm_add_to_output", lambda k: run_gemm(k, add_to_output=True), ks, "K", ["reduce"])


def main(out: Path) -> None:
    folder = restart_with_probe()
    dsl = version("nvidia-cutlass-dsl")
    tracer = Tracer(Emitter(out, f"quack-kernels {version('quack-kernels')}, cutlass-dsl {dsl}"), folder)
    tracer.install()
    cases(tracer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
