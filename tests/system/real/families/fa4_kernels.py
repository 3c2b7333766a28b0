"""The kernels of flash-attention 4 for Hopper, through its own functions."""

import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from cute_trace import Tracer, restart_with_probe
from emit import Emitter


def cases(tracer: Tracer) -> None:
    import torch

    torch.Tensor.is_cuda = property(lambda self: True)
    attention = import_module("flash_attn.cute.interface")
    lengths = (256, 384, 640)

    def tensor(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype)

    def forward(length, dim=128, heads=2, kv_heads=2, dtype=torch.bfloat16, dim_v=None, **options):
        q, k = tensor(1, length, heads, dim, dtype=dtype), tensor(1, length, kv_heads, dim, dtype=dtype)
        v = tensor(1, length, kv_heads, dim_v or dim, dtype=dtype)
        attention._flash_attn_fwd(q, k, v, **options)

    def backward(length, dim=128, **options):
        q, k, v, out, grad = (tensor(1, length, 2, dim) for _ in range(5))
        attention._flash_attn_bwd(q, k, v, out, grad, tensor(1, 2, length, dtype=torch.float32), **options)

    def varlen(length, dim=128, **options):
        q, k, v = (tensor(2 * length, 2, dim) for _ in range(3))
        cu = torch.tensor([0, length, 2 * length], dtype=torch.int32)
        attention._flash_attn_fwd(
            q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=length, max_seqlen_k=length, **options
        )

    def case(name, call, covers=(), holds=None):
        tracer.case(name, call, lengths, "L", ["attention", *covers], holds)

    for dim in (64, 128):
        case(f"forward_d{dim}", lambda n, d=dim: forward(n, d))
        case(f"forward_d{dim}_causal", lambda n, d=dim: forward(n, d, causal=True))
    case("forward_d256", lambda n: forward(n, 256))
    case("forward_d96", lambda n: forward(n, 96))
    case("forward_gqa", lambda n: forward(n, 128, heads=8, kv_heads=2))
    case("forward_f16", lambda n: forward(n, 128, dtype=torch.float16))
    case("forward_local", lambda n: forward(n, 128, window_size_left=128, window_size_right=0))
    starts = {"T4": ("i32", [0, lengths[0], 2 * lengths[0]])}  # where sequences start: the fifth tensor
    case("forward_varlen", lambda n: varlen(n), ["varlen"], starts)
    case("backward_d64", lambda n: backward(n, 64))
    case("backward_d128", lambda n: backward(n))
    case("backward_d128_causal", lambda n: backward(n, causal=True))


def main(out: Path) -> None:
    folder = restart_with_probe()
    dsl = version("nvidia-cutlass-dsl")
    tracer = Tracer(Emitter(out, f"flash-attn-4 {version('flash-attn-4')}, cutlass-dsl {dsl}"), folder)
    tracer.install()
    cases(tracer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
