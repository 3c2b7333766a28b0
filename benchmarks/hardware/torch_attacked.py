"""What an attack on the backend found wrong, on a GPU: each case beside float64, or beside eager torch.

    python benchmarks/hardware/torch_attacked.py [--part 0 --of 4]

Cases are graphs that write to tensors beside an attention, heads that are repeated or written, gradients at
``padding_idx`` that are no number, autocast around kernels, the order of draws and of collectives, a
variance of few elements, and settings that are left to Inductor. Kernels are always used. Nothing is timed.
``--part``: every so many cases, so that processes run beside each other. Without a GPU NumPy takes the place
of kernels.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.fusion import Tensor, trace  # noqa: E402
from syncverify.matmul import Problem  # noqa: E402
from syncverify.torch import embeddings  # noqa: E402

GPU = torch.cuda.is_available()
DEVICE, HALF = ("cuda", torch.bfloat16) if GPU else ("cpu", torch.float32)
#: Batches, heads, places and width of attentions; copies of each head; columns of norms.
B, H, L, D, COPIES, COLUMNS = 2, 4, 64, 64, 3, 512
#: Relative errors of results in 16 and in 32 bits, at most.
NARROW, WIDE = 2e-2, 1e-5


def backend(**options: Any) -> Any:
    """A backend that takes every kernel, with these settings."""
    own = {"proof_seconds": 40.0} if GPU else {"runner": "reference"}
    return sv.make_backend({"use": "always", **own, **options})


def compiled(function: Callable[..., Any], own: Any = None) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=own or backend())


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(sum(shape) + 1000 * seed)
    return torch.randn(shape, generator=generator).to(DEVICE, dtype)


def heads(count: int = H) -> Any:
    return draw(B, count, L, D, seed=count, dtype=HALF)


def wide(*inputs: Any) -> list[Any]:
    return [x.detach().double() for x in inputs]


def near(got: Any, want: Any, most: float) -> str:
    """The relative error; AssertionError where it is above the most."""
    error = float((got.double() - want.double()).norm() / want.double().norm().clamp_min(1e-30))
    assert error < most, f"off by {error:.1e}"
    return f"{error:.0e}"


def mask() -> Any:
    n = torch.arange(L, device=DEVICE)
    return (n[None, :] <= n[:, None])[None, None]


def repeated(x: Any) -> Any:
    return x[:, :, None].expand(B, H, COPIES, L, D).reshape(B, H * COPIES, L, D)


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, (COLUMNS,), w)


def norms() -> list[Any]:
    return [draw(64, COLUMNS), draw(COLUMNS, seed=1)]


def _filled(c: Any) -> None:
    c[:, 0] = 3.0


WRITES: tuple[Callable[[Any], Any], ...] = (
    lambda c: c.add_(1.0), lambda c: c.copy_(c.flip(-1)), lambda c: torch.mul(c, 2.0, out=c),
    lambda c: F.relu(c, inplace=True), lambda c: torch._foreach_add_([c], 1.0), _filled,
)  # fmt: skip


def writes_beside_an_attention() -> str:
    for write in WRITES:

        def function(q: Any, k: Any, v: Any, c: Any, write: Any = write) -> Any:
            write(c)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask()) + 1

        given, cache, wanted = [heads(), heads(), heads()], draw(8, 64), draw(8, 64)
        got = compiled(function)(*given, cache)
        q, k, v = wide(*given)
        near(got, function(q, k, v, wanted), NARROW)
        assert torch.equal(cache, wanted)
    return f"{len(WRITES)} forms"


def heads_that_change_behind_their_copies() -> str:
    def function(q: Any, k: Any, v: Any) -> Any:
        k = k + 0
        copies = repeated(k)
        k.zero_()
        return F.scaled_dot_product_attention(q, copies, repeated(v)) + k.sum()

    given = [heads(H * COPIES), heads(), heads()]
    return near(compiled(function)(*given), function(*wide(*given)), NARROW)


def heads_that_are_repeated() -> str:
    def function(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, repeated(k), repeated(v), attn_mask=mask())

    given = [heads(H * COPIES), heads(), heads()]
    return near(compiled(function)(*given), function(*wide(*given)), NARROW)


def gradients_at_padding_idx() -> str:
    indices = torch.randint(0, 20, (512, 64), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    found = []
    for dtype in (torch.float32, HALF):
        for unusual in (torch.nan, torch.inf):
            scale = draw(512, 64, 64, dtype=dtype)
            scale[indices == 3] = unusual

            def function(w: Any, s: Any) -> Any:
                return F.embedding(indices, w, padding_idx=3) * s

            given, exact = draw(32, 64, dtype=dtype).requires_grad_(), draw(32, 64).double().requires_grad_()
            (got,) = torch.autograd.grad(compiled(function)(given, scale).sum(), given)
            (want,) = torch.autograd.grad(function(exact, scale.double()).sum(), exact)
            found.append(near(got, want, WIDE if dtype is torch.float32 else NARROW))
            product = embeddings.backward(
                scale.transpose(0, 2).contiguous().transpose(0, 2), indices, 32, 3, False
            )
            near(product, want, NARROW)
    return " ".join(found)


def autocast_around_a_product() -> str:
    acc = Tensor("f32", ("M", "N"))
    op = sv.matmul_op(Problem("half_product", "f16", "KN", trace(lambda acc: acc.cast("f16"), {"acc": acc})))
    a, b = (draw(*s, dtype=torch.float16).requires_grad_() for s in ((64, 128), (128, 64)))
    found = []
    for enabled in (False, True):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=enabled):
            got = op(a, b)
            found.append((got, *torch.autograd.grad(got.float().sum(), (a, b))))
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
    return near(found[1][0], a.double() @ b.double(), NARROW)


def autocast_around_a_graph() -> str:
    """As near to float64 as eager torch is, whose factors are rounded, too."""

    def function(x: Any, w: Any, g: Any) -> Any:
        return norm(F.relu(x @ w) * 2 + 1, g)

    given = [draw(256, COLUMNS), draw(COLUMNS, COLUMNS, seed=1) / 22, draw(COLUMNS, seed=2)]
    given = [x.requires_grad_() for x in given]
    exact = [x.requires_grad_() for x in wide(*given)]
    y = function(*exact)
    wanted = (y, *torch.autograd.grad(y.square().sum(), exact))
    errors = []
    for f in (function, compiled(function)):
        with torch.autocast(DEVICE, torch.bfloat16):
            y = f(*given)
            found = (y, *torch.autograd.grad(y.float().square().sum(), given))
        errors.append([float((a.double() - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True)])
    assert all(own < 2 * eager + 1e-3 for eager, own in zip(*errors, strict=True)), errors
    return " ".join(f"{e:.0e}" for e in errors[1])


def draws_in_order() -> str:
    def function(x: Any) -> Any:
        rate = torch.relu(x) + 1
        first, second = torch.poisson(rate), torch.poisson(x.abs())
        return first, (rate + second) * 2

    x, found = draw(64, COLUMNS), []
    for f in (function, compiled(function)):
        f(x)
        torch.manual_seed(0)
        found.append(f(x))
    assert torch.equal(found[0][0], found[1][0])
    return near(found[1][1], found[0][1], WIDE)


def dropout_beside_a_norm() -> str:
    def function(x: Any, w: Any) -> Any:
        return F.dropout(norm(x, w), 0.5) * 2

    x, w = (x.requires_grad_() for x in norms())
    got = compiled(function)(x, w)
    kept = got != 0
    assert 0.45 < float(kept.float().mean()) < 0.55
    exact = [x.requires_grad_() for x in wide(x, w)]
    want = norm(*exact) * 4 * kept
    pairs = zip(torch.autograd.grad(got.sum(), (x, w)), torch.autograd.grad(want.sum(), exact), strict=True)
    return " ".join([near(got, want, WIDE), *(near(a, b, WIDE) for a, b in pairs)])


def collectives_in_order() -> str:
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + os.getpid() % 1000))
    dist.init_process_group("nccl" if GPU else "gloo", rank=0, world_size=1)

    def function(x: Any, w: Any) -> Any:
        late = norm(x, w) + 1
        first = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        return first + 1, functional.all_reduce(late, "sum", dist.group.WORLD) * 2

    given = norms()
    pairs = zip(compiled(function)(*given), function(*wide(*given)), strict=True)
    found = " ".join(near(a, b, WIDE) for a, b in pairs)
    dist.destroy_process_group()
    return found


def a_variance_of_few_elements() -> str:
    def function(x: Any, correction: int = 5) -> Any:
        return (x * 2).var(-1, correction=correction) + 1

    few, many = draw(6, 3), draw(256, 300)
    got, want = compiled(function)(few), function(few)
    assert torch.equal(got.nan_to_num(), want.nan_to_num())
    return near(compiled(lambda x: function(x, 1))(many), function(many.double(), 1), WIDE)


def settings_that_are_left_to_inductor() -> str:
    given, known = norms(), torch._inductor.config.get_config_copy()
    for options in (
        {"emulate_precision_casts": True}, {"batch_invariant": True}, {"use": "faster", "deterministic": True}
    ):  # fmt: skip
        if {*options} - {"use"} <= known.keys():
            own = backend(**options)
            near(compiled(norm, own)(*given), norm(*wide(*given)), WIDE)
            assert not own.report.graphs
    return ""


def a_kernel_is_used() -> str:
    own, given = backend(), norms()
    error = near(compiled(lambda x, w: norm(x, w) + 1, own)(*given), norm(*wide(*given)) + 1, WIDE)
    assert any(not r.refused for g in own.report.graphs for r in g.regions)
    return error


CASES: tuple[Callable[[], str], ...] = (
    writes_beside_an_attention, heads_that_change_behind_their_copies, heads_that_are_repeated,
    gradients_at_padding_idx, autocast_around_a_product, autocast_around_a_graph, draws_in_order,
    dropout_beside_a_norm, collectives_in_order, a_variance_of_few_elements,
    settings_that_are_left_to_inductor, a_kernel_is_used,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--of", type=int, default=1)
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    wrong = 0
    for case in CASES[o.part :: o.of]:
        began = time.perf_counter()
        try:
            said = f"right {case()}"
        except Exception as e:  # the next case is tried
            said = f"WRONG {type(e).__name__}: {str(e)[:300]}"
            wrong += 1
        print(f"{case.__name__}: {said} ({time.perf_counter() - began:.1f} s)", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
