"""Models of Hugging Face with random weights: ``backend="syncverify"`` beside Inductor, on a Hopper GPU.

    python benchmarks/hardware/torch_whole_models.py --out DIR [--models llama,gpt2] [--layers 4] \
        [--mode reduce-overhead] [--beside 3] [--begin 120] [--exact] [--cached]

Each model has a process of its own, so many ``--beside`` each other; whoever times holds the GPU alone.
Timing begins when all are compiled, or after ``--begin`` seconds. DIR/MODEL.json gets: loss and gradients
beside eager torch, seconds to compile, milliseconds of a training step and of a forward pass (wall, medians,
two rounds in alternation), what the GPU does in a step, and which regions became kernels, with times of their
contexts. ``--exact``: loss and gradients beside the same model in float64. ``--cached``: the backend by its
name, which AOTAutograd's cache may know of: run twice, the second run shows what another process compiles,
and no regions. On a CPU (``--runner reference``) it compiles and compares only. Without transformers it says
so and ends with status 0.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

#: Configuration, its model, its own settings; tokens of a sequence, words, sequences.
MODELS: dict[str, tuple[str, str, dict[str, Any], tuple[int, int, int]]] = {
    "llama": (
        "LlamaConfig", "LlamaForCausalLM",
        {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 4},
        (2048, 32000, 4),
    ),
    "qwen3": (
        "Qwen3Config", "Qwen3ForCausalLM",
        {"hidden_size": 1536, "intermediate_size": 4608, "num_attention_heads": 12, "num_key_value_heads": 4,
         "head_dim": 128},
        (2048, 50000, 4),
    ),
    "gpt2": (
        "GPT2Config", "GPT2LMHeadModel",
        {"n_embd": 1024, "n_head": 16, "n_positions": 1024, "resid_pdrop": 0, "embd_pdrop": 0,
         "attn_pdrop": 0},
        (1024, 50257, 8),
    ),
    "gemma2": (
        "Gemma2Config", "Gemma2ForCausalLM",
        {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256},
        (1024, 32000, 4),
    ),
    "bert": (
        "BertConfig", "BertForMaskedLM",
        {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        (512, 30522, 16),
    ),
    "mixtral": (
        "MixtralConfig", "MixtralForCausalLM",
        {"hidden_size": 1024, "intermediate_size": 3584, "num_attention_heads": 16, "num_key_value_heads": 4,
         "num_local_experts": 8},
        (1024, 32000, 4),
    ),
    # a block of the shape of Llama 3 8B, and few words
    "block": (
        "LlamaConfig", "LlamaForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
         "num_hidden_layers": 1, "max_position_embeddings": 8192},
        (8192, 1024, 1),
    ),
}  # fmt: skip


@contextmanager
def gpu(out: Path) -> Iterator[None]:
    """The GPU for this process alone, among those that ask."""
    import torch

    with open(out / "gpu.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def timed(call: Callable[[], object], count: int = 9) -> float:
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    found = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return statistics.median(found)


def profile_of(call: Callable[[], object], count: int = 4) -> list[tuple[float, float, str]]:
    """Milliseconds, launches and names of the GPU's kernels in one call."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as p:
        for _ in range(count):
            call()
        torch.cuda.synchronize()
    rows = [(e.self_device_time_total / 1e3 / count, e.count / count, e.key[:120]) for e in p.key_averages()]
    return sorted((r for r in rows if r[0]), reverse=True)


def child(name: str, o: argparse.Namespace) -> None:
    import torch
    import transformers

    import syncverify.torch as sv
    from syncverify.gate.ahead import provers

    out = Path(o.out)
    provers().jobs = max(2, provers().jobs // o.beside)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config, made, own, (length, words, batch) = MODELS[name]
    length, batch = (length, batch) if device == "cuda" else (32, 1)
    layers = {"n_layer" if name == "gpt2" else "num_hidden_layers": o.layers}
    torch.manual_seed(0)
    settings = getattr(transformers, config)(**{**layers, **own}, vocab_size=words)
    model = getattr(transformers, made)(settings).to(device).bfloat16().train()
    ids = torch.randint(0, words, (batch, length), device=device)

    def step(f: Any, owner: Any = model) -> float:
        owner.zero_grad(set_to_none=True)
        loss = f(input_ids=ids, labels=ids).loss
        loss.backward()
        return float(loss.detach())

    def forward(f: Any) -> float:
        with torch.no_grad():
            return float(f(input_ids=ids, labels=ids).loss)

    def gradients(owner: Any = model) -> torch.Tensor:
        return torch.cat([p.grad.float().flatten() for p in owner.parameters() if p.grad is not None])

    row: dict[str, Any] = {"model": name, "mode": o.mode, "torch": torch.__version__}
    with gpu(out):
        loss, reference = step(model), gradients()
        if o.exact:
            exact = copy.deepcopy(model).double()
            exact.gradient_checkpointing_enable()
            own_loss, own_gradients = loss, reference
            loss, reference = step(exact, exact), gradients(exact)
            del exact
            row["eager"] = {
                "loss_rel": abs(own_loss - loss) / abs(loss),
                "grad_rel": float((own_gradients - reference).norm() / reference.norm()),
            }
    backend = sv.make_backend({"runner": o.runner}, o.mode)
    mode = None if o.mode == "default" else o.mode
    ours: Any = {"backend": "syncverify", "mode": mode} if o.cached else {"backend": backend}
    arms = {
        "inductor": torch.compile(model, backend="inductor", mode=mode),
        "syncverify": torch.compile(model, **ours),
    }
    for arm, f in arms.items():
        began = time.perf_counter()
        own_loss = step(f)
        trained = time.perf_counter()
        got = gradients()
        forwarded = time.perf_counter()
        forward(f)
        row[arm] = {
            "compile_s": trained - began, "compile_forward_s": time.perf_counter() - forwarded,
            "loss_rel": abs(own_loss - loss) / abs(loss),
            "grad_rel": float((got - reference).norm() / reference.norm()),
        }  # fmt: skip
    row["regions"] = [
        [{"name": r.name, "sizes": dict(r.sizes), "refused": r.refused, "notes": r.notes} for r in rs]
        for g in backend.report.graphs
        for rs in (g.regions, g.refused)
    ]
    (out / f"{name}.json").write_text(json.dumps(row, indent=1, default=str) + "\n")
    (out / f"{name}.ready").touch()
    if device == "cpu":
        return
    while len(list(out.glob("*.ready"))) < len(o.models.split(",")) and time.time() < o.until:
        time.sleep(0.3)
    with gpu(out):
        row["gpu"] = torch.cuda.get_device_name()
        for _ in range(2):
            for arm, f in arms.items():
                row[arm].setdefault("step_ms", []).append(timed(lambda f=f: step(f)))
                row[arm].setdefault("forward_ms", []).append(timed(lambda f=f: forward(f)))
        for arm, f in arms.items():
            row[arm]["kernels"] = profile_of(lambda f=f: step(f))
            row[arm]["busy_ms"] = sum(ms for ms, *_ in row[arm]["kernels"])
    for what in ("step", "forward"):
        ms = [min(row[arm][f"{what}_ms"]) for arm in arms]
        row[f"{what}_ratio"] = ms[0] / ms[1]
        print(f"{name} {what}: inductor {ms[0]:.2f} ms, syncverify {ms[1]:.2f} ms, {ms[0] / ms[1]:.3f}")
    (out / f"{name}.json").write_text(json.dumps(row, indent=1, default=str) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--mode", default="default", help="default, reduce-overhead, max-autotune, ...")
    parser.add_argument("--runner", default="gate")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--beside", type=int, default=1)
    parser.add_argument("--begin", type=float, default=1e9)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        print("torch and transformers are not installed: nothing to measure")
        return
    if o.child:
        child(o.child, o)
        return
    Path(o.out).mkdir(parents=True, exist_ok=True)
    for old in Path(o.out).glob("*.ready"):
        old.unlink()
    o.until = time.time() + o.begin if o.beside > 1 else 0.0
    same = [
        f"--{k}={getattr(o, k)}" for k in ("out", "models", "mode", "runner", "layers", "beside", "until")
    ]
    same += [f"--{k}" for k in ("exact", "cached") if getattr(o, k)]
    waiting = o.models.split(",")
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        running = [p for p in running if p.poll() is None]
        while waiting and len(running) < o.beside:
            running.append(subprocess.Popen([sys.executable, __file__, f"--child={waiting.pop(0)}", *same]))
        time.sleep(0.2)


if __name__ == "__main__":
    main()
