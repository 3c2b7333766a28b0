"""Proves kernels of common models and packs the proofs for the wheel (``syncverify/codegen/shipped.zip``).

    python benchmarks/compiler/ship_proofs.py --out syncverify/codegen/shipped.zip [--jobs 4] \
        [--models llama,gpt2] [--list]

It needs torch and transformers. The models of ``torch_whole_models.py`` are traced, forward, backward and
inference: with tensors that have no elements, so no GPU is needed. Products alone are taken for other sizes,
too. A proof of a product is for every size, one of a row for its length. ``--list`` proves nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "hardware")]

from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.fusion import Fusion  # noqa: E402
from syncverify.gate import H200_SMS  # noqa: E402
from syncverify.gate.ahead import Ahead  # noqa: E402
from syncverify.gate.shipping import ship  # noqa: E402
from syncverify.matmul.problem import Problem  # noqa: E402

#: Tokens, and widths of models between which their products go.
TOKENS = (2048, 4096, 8192, 16384)
WIDTHS = (768, 1024, 2048, 4096, 5120, 8192, 14336)
#: Processor time of each proof: what the torch backend gives, and what it may take here.
SECONDS, LONGER = 15.0, 60.0
#: Layers that are traced: a first, one in the middle, and a last one.
LAYERS = 3


#: A kernel and sizes that it is needed for.
Needed = tuple[Fusion | Problem, dict[str, int]]


def kernels_of_models(models: list[str]) -> Iterator[Needed]:
    """What the backend would try of models."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        print("torch or transformers is not installed: no kernels of models")
        return
    from syncverify.torch.runners import ListingRunner

    runner = ListingRunner(proof_seconds=SECONDS)
    for name in models:
        began = time.time()
        try:
            trace(name, runner)
            with padding():
                trace(name, runner)
            with padding(), inference_padded():
                trace(name, runner)
        except Exception as e:  # a model that this version of torch cannot trace without elements
            print(f"{name}: {e!r}"[:300])
        print(f"{name}: {len(runner.found)} kernels by now, {time.time() - began:.1f} s", flush=True)
    yield from runner.found.values()


@contextmanager
def padding() -> Iterator[None]:
    """Inductor's passes over the graph of forward and backward, which pad products as they do on a GPU.

    Example: a vocabulary of 50257 words becomes rows of 50264, and the loss reads them where they lie.
    """
    from torch._functorch import partitioners
    from torch._inductor import config
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes

    plain = partitioners.min_cut_rematerialization_partition

    def divided(joint: Any, *args: Any, **settings: Any) -> Any:
        joint_graph_passes(joint)
        return plain(joint, *args, **settings)

    with (
        patch.object(pad_mm, "check_device", lambda a, b: True),
        patch.object(pad_mm, "has_triton", lambda: True, create=True),
        patch.object(partitioners, "min_cut_rematerialization_partition", divided),
        config.patch(force_shape_pad=True),
    ):
        yield


@contextmanager
def inference_padded() -> Iterator[None]:
    """The same of graphs that nothing is divided of. Those of a training step have it behind them.

    Example: the loss of an inference reads 50257 logits in rows of 50264.
    """
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes

    import syncverify.torch.backend  # noqa: F401

    backend: Any = sys.modules["syncverify.torch.backend"]  # the package has a function of that name
    plain = backend.grouped

    def grouped(module: Any, *args: Any, **settings: Any) -> Any:
        joint_graph_passes(module)
        return plain(module, *args, **settings)

    with patch.object(backend, "grouped", grouped):
        yield


def products_of_sizes(known: list[Needed]) -> Iterator[Needed]:
    """Products alone of other sizes, in the layouts of the known ones."""
    plain = {k.layout: k for k, _ in known if isinstance(k, Problem) and k.name == "fused_mm"}
    for problem in plain.values():
        for tokens in TOKENS:
            for inner in WIDTHS:
                for outer in WIDTHS:
                    yield problem, turned(problem, tokens, inner, outer)


def turned(problem: Problem, tokens: int, inner: int, outer: int) -> dict[str, int]:
    """Sizes of a product by its layout: that of a gradient of a weight sums over tokens."""
    if problem.a_t:
        return {"M": outer, "N": inner, "K": tokens}
    return {"M": tokens, "N": outer, "K": inner}


def trace(name: str, runner: Any) -> None:
    """Compiles a model's training step and forward pass for tensors without elements."""
    import torch
    import transformers
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch_whole_models import MODELS

    import syncverify.torch as sv

    config, made, own, (length, words, batch) = MODELS[name]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = {"n_layer" if name == "gpt2" else "num_hidden_layers": LAYERS}
    count = {"num_labels": words} if name == "vit" else {"vocab_size": words}
    settings = getattr(transformers, config)(**{**layers, **own}, **count)
    torch._dynamo.reset()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
            # some initialisations look at elements, which these weights do not have
            with patch.object(transformers.PreTrainedModel, "initialize_weights", lambda self: None):
                model = getattr(transformers, made)(settings).train()
            torch.set_default_dtype(torch.float32)
            given = inputs(name, own, length, words, batch)
            f = torch.compile(model, backend=sv.make_backend({"runner": runner}))
            f(**given).loss.backward()
            with torch.no_grad():
                f(**given)
    finally:
        torch.set_default_dtype(torch.float32)


def inputs(name: str, own: dict[str, Any], length: int, words: int, batch: int) -> dict[str, Any]:
    import torch

    if name != "vit":
        ids = torch.randint(0, words, (batch, length))
        return {"input_ids": ids, "labels": ids}
    side = own["image_size"]
    images = torch.randn(batch, 3, side, side, dtype=torch.bfloat16)
    return {"pixel_values": images, "labels": torch.randint(0, words, (batch,))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--models", default="llama,qwen3,gpt2,gemma2,bert,vit,mixtral,block")
    parser.add_argument("--models-only", action="store_true", help="no products of other sizes")
    parser.add_argument("--list", action="store_true")
    o = parser.parse_args()
    found: dict[str, Ahead] = {}
    wanted = list(kernels_of_models(o.models.split(",")))
    for kernel, sizes in wanted if o.models_only else [*wanted, *products_of_sizes(wanted)]:
        one = Ahead(kernel, sizes, Policy.PRACTICAL, H200_SMS, SECONDS)
        found.setdefault(one.key, one)
    kinds = [isinstance(one.kernel, Problem) for one in found.values()]
    print(f"{len(found)} kernels, {sum(kinds)} of them products", flush=True)
    if o.list:
        for one in found.values():
            print(f"  {one.kernel.name} {getattr(one.kernel, 'layout', '')} {one.sizes}")
        return
    began = time.time()
    count = ship(list(found.values()), Path(o.out), o.jobs, LONGER)
    size = Path(o.out).stat().st_size
    print(f"{count} files, {size / 2**20:.1f} MiB, proved in {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
