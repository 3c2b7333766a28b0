"""Models of Hugging Face with random weights: ``backend="syncverify"`` beside Inductor, on a Hopper GPU.

    python benchmarks/hardware/torch_whole_models.py --out DIR [--models llama,gpt2] [--layers 4] \
        [--modes default,max-autotune] [--seconds 500] [--limit 100] [--exact] [--profile] [--forward] \
        [--again] [--apart] [--where]

Each row is made by processes of their own, one after the other, so that nothing shares the machine with what
is measured: one compiles with Inductor, one with this backend, with empty caches; a third, with the caches of
both, shows what another process compiles, and times both in alternation. While one runs, the next loads its
model, but with ``--apart``: then it begins when the last one has ended. A process that takes longer than
``--limit`` is ended. After ``--seconds`` nothing is begun.

DIR/rows.jsonl gets a line of each process when it ends; ``seconds`` in it: where they went. Compilation is
that of a first training step and a first forward pass. Times are medians, in milliseconds by events of the
GPU, two rounds. ``share``: the part of the GPU's time in kernels that were proved. ``--exact``: loss and
gradients beside the same model in float64, else beside eager torch. On a CPU (``--runner reference``) models
are small, and nothing is timed. ``--forward``: forward passes alone. ``--ours-first``: where one process
compiles with both, Inductor comes last. ``--again``: two processes more, each of which compiles one arm with
the caches that its first process left. ``--where``: where Python's time goes in compilations, in
DIR/*.profile; that takes time itself. ``tuned``, among ``--processes``: Inductor's max-autotune beside this
backend's reduce-overhead; forward passes first, which have a line of their own; ``--steps``: steps alone;
``--ours max-autotune``: this backend in that mode, too, which finds in caches what Inductor has timed.
Without transformers it says so and ends with status 0.
"""

from __future__ import annotations

import argparse
import copy
import cProfile
import fcntl
import importlib.util
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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
    # an encoder and a decoder
    "t5": (
        "T5Config", "T5ForConditionalGeneration",
        {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "d_kv": 64, "dropout_rate": 0.0,
         "decoder_start_token_id": 0},
        (512, 32128, 8),
    ),
    # 197 patches of an image; the words are classes
    "vit": (
        "ViTConfig", "ViTForImageClassification",
        {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "image_size": 224,
         "patch_size": 16},
        (197, 1000, 64),
    ),
    # a block of the shape of Llama 3 8B, and few words
    "block": (
        "LlamaConfig", "LlamaForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
         "num_hidden_layers": 1, "max_position_embeddings": 8192},
        (8192, 1024, 1),
    ),
    # as few different products as a layer and its gradients can have: max-autotune times each for 5 to 30 s
    "small": (
        "LlamaConfig", "LlamaForCausalLM",
        {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
         "num_key_value_heads": 16},
        (1024, 4096, 4),
    ),
}  # fmt: skip
#: Those that are measured unless others are named.
USUAL = tuple(name for name in MODELS if name != "small")

#: What configurations call the number of layers, where it has another name.
LAYERS = {"gpt2": "n_layer", "t5": "num_layers"}

ARMS = ("inductor", "syncverify")
#: What a process does: compiles one arm with empty caches, or both with what those left, and times them.
STAGES = (*ARMS, "both")
#: Two more, where they are asked for: one arm each, with the caches that its first process left.
AGAIN = {f"{arm}-again": arm for arm in ARMS}
#: One more, where it is asked for: Inductor with max-autotune, beside this backend. Both make CUDA graphs.
TUNED = "tuned"
TUNED_MODES = {"inductor": "max-autotune", "syncverify": "reduce-overhead"}


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


def profile_of(call: Callable[[], object], count: int = 3) -> list[tuple[float, float, str]]:
    """Milliseconds, launches and names of the GPU's kernels in one call."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as p:
        for _ in range(count):
            call()
        torch.cuda.synchronize()
    rows = [(e.self_device_time_total / 1e3 / count, e.count / count, e.key[:120]) for e in p.key_averages()]
    return sorted((r for r in rows if r[0]), reverse=True)


def share_of(rows: list[tuple[float, float, str]]) -> float:
    """The part of the time in kernels of this backend, whose names begin so."""
    return sum(ms for ms, _, name in rows if name.startswith("fused_")) / max(1e-9, sum(r[0] for r in rows))


class Case:
    """A model, its inputs, and what is done with it."""

    def __init__(self, name: str, layers: int, device: str, training: bool = True) -> None:
        import torch
        import transformers

        self.training, self.device = training, device
        config, made, own, (length, words, batch) = MODELS[name]
        if device == "cpu":
            length, batch, words = 32, 1, min(words, 512)
            own = {**own, "image_size": 64} if name == "vit" else own
        counts = {LAYERS.get(name, "num_hidden_layers"): layers}
        vocabulary = {"num_labels": words} if name == "vit" else {"vocab_size": words}
        torch.manual_seed(0)
        settings = getattr(transformers, config)(**{**counts, **own}, **vocabulary)
        with torch.device(device):
            model = getattr(transformers, made)(settings)
        self.model = model.to(device).bfloat16().train()
        if name == "vit":
            side = own["image_size"]
            images = torch.randn(batch, 3, side, side, device=device).bfloat16()
            self.given = {"pixel_values": images, "labels": torch.randint(0, words, (batch,), device=device)}
        else:
            ids = torch.randint(0, words, (batch, length), device=device)
            self.given = {"input_ids": ids, "labels": ids}

    def step(self, f: Any, owner: Any = None) -> float:
        owner = self.model if owner is None else owner
        owner.zero_grad(set_to_none=True)
        given = {
            k: x.to(next(owner.parameters()).dtype) if x.is_floating_point() else x
            for k, x in self.given.items()
        }
        loss = f(**given).loss
        loss.backward()
        return float(loss.detach())

    def forward(self, f: Any) -> float:
        import torch

        with torch.no_grad():
            return float(f(**self.given).loss)

    def first(self, f: Any, owner: Any = None) -> float:
        """The loss of a step, or of a forward pass where nothing is trained."""
        return self.step(f, owner) if self.training else self.forward(f)

    def gradients(self, owner: Any = None) -> Any:
        """Of the last step; None where nothing is trained."""
        import torch

        if not self.training:
            return None
        owner = self.model if owner is None else owner
        return torch.cat([p.grad.float().flatten() for p in owner.parameters() if p.grad is not None])

    def reference(self, exact: bool) -> tuple[float, Any, dict[str, float]]:
        """Loss and gradients to compare with, and how far eager torch is from them."""
        loss, gradients = self.first(self.model), self.gradients()
        if not exact:
            return loss, gradients, {}
        wide = copy.deepcopy(self.model).double()
        if hasattr(wide, "set_experts_implementation"):  # grouped products know no float64
            wide.set_experts_implementation("eager")
        if wide.supports_gradient_checkpointing:
            wide.gradient_checkpointing_enable()
        found = self.first(wide, wide), self.gradients(wide)
        return *found, far(loss, gradients, *found)


def far(loss: float, gradients: Any, wanted: float, reference: Any) -> dict[str, float]:
    found = {"loss_rel": abs(loss - wanted) / abs(wanted)}
    if gradients is not None:
        found["grad_rel"] = float((gradients - reference).norm() / reference.norm())
    return found


@contextmanager
def profiled(place: Path) -> Iterator[None]:
    """Writes down the functions that take longest, with and without what they call."""
    with cProfile.Profile() as found:
        yield
    with open(place, "w") as file:
        statistics_of = pstats.Stats(found, stream=file)
        for order in ("tottime", "cumtime"):
            statistics_of.sort_stats(order).print_stats(150)
        statistics_of.sort_stats("cumtime").print_stats("syncverify", 80)


@contextmanager
def machine(out: Path, name: str) -> Iterator[None]:
    """The machine for this process alone, among those that ask; a file says since when."""
    with open(out / "machine.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (out / f"{name}.begun").write_text(str(time.time()))
        yield


def compiled_first(
    case: Case, arm: str, mode: str, runner: str, forward: bool = True
) -> tuple[Any, dict[str, Any]]:
    """The compiled model, and the seconds of its first step and forward pass."""
    import torch

    import syncverify.torch as sv

    backend: Any = arm
    own: str | None = None if mode == "default" else mode
    if arm != "inductor" and runner != "gate":
        backend, own = sv.make_backend({"runner": runner}, own), None
    began = time.perf_counter()
    f = torch.compile(case.model, backend=backend, mode=own)
    loss = case.step(f) if case.training else 0.0
    trained = time.perf_counter()
    gradients = case.gradients()
    forwarded = time.perf_counter()
    passed = case.forward(f) if forward else 0.0
    loss = loss if case.training else passed
    row = {"compile_s": trained - began, "compile_forward_s": time.perf_counter() - forwarded}
    return f, {**row, "loss": loss, "gradients": gradients}


def regions_of(stage: str) -> list[dict[str, Any]]:
    """What this backend found in this process, as its log tells."""
    return [
        {"kind": r.kind, "operations": len(r.operations), "name": r.name, "sizes": dict(r.sizes),
         "refused": r.refused, "notes": r.notes}
        for g in REPORTS
        for r in (*g.regions, *g.refused)
    ] if stage in ("syncverify", TUNED) else []  # fmt: skip


#: Reports of the graphs that were compiled in this process.
REPORTS: list[Any] = []


#: Seconds of this process in parts of its compilations.
SECONDS: dict[str, float] = {}


def clocked(owner: Any, name: str, what: str) -> None:
    """Counts the seconds of calls of a function."""
    plain = getattr(owner, name)

    def call(*args: Any, **settings: Any) -> Any:
        began = time.perf_counter()
        try:
            return plain(*args, **settings)
        finally:
            SECONDS[what] = SECONDS.get(what, 0.0) + time.perf_counter() - began

    setattr(owner, name, call)


def collect() -> None:
    """Keeps the reports of backends that torch.compile makes by their name, and what takes time in them."""
    from torch._inductor.async_compile import AsyncCompile

    import syncverify.torch.backend  # noqa: F401

    own = {name: sys.modules[f"syncverify.torch.{name}"] for name in ("backend", "trials")}
    clocked(own["backend"], "grouped", "groups")
    clocked(own["backend"], "faster", "trials")
    clocked(own["trials"], "compiled", "programs of trials")
    clocked(own["trials"], "timed", "calls of trials")
    clocked(own["trials"], "operator_of", "operators of trials")
    clocked(AsyncCompile, "wait", "waits for kernels")

    module = sys.modules["syncverify.torch.backend"]
    plain = module.lower_groups

    def lower_groups(*args: Any, **settings: Any) -> Any:
        found = plain(*args, **settings)
        REPORTS.append(found[1])
        return found

    module.lower_groups = lower_groups  # type: ignore[attr-defined]
    clocked(module, "lower_groups", "kernels in graphs")
    clocked(module.Backend, "_again", "second rounds")


def child(o: argparse.Namespace) -> None:
    import torch

    collect()
    name, mode, stage = o.child.split("/")
    out = Path(o.out)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    row: dict[str, Any] = {"model": name, "mode": mode, "stage": stage, "torch": torch.__version__}
    row["layers"] = o.layers
    case = Case(name, o.layers, device, not o.forward)
    tag = f"{name}.{mode}.{stage}"
    with machine(out, tag):
        if stage == TUNED:  # forward passes first: a step takes long to tune, and may not end
            candidates_by_threads()
            for training in (False,) * (not o.steps) + (True,) * (not o.forward):
                case.training = training
                kept(o, compared(case, {**row}, o, tag))
        else:
            kept(o, compared(case, row, o, tag))


def candidates_by_threads() -> None:
    """Has threads compile the candidates of a product.

    What Inductor's processes compile was not found again in its main process: that compiled 20 candidates one
    after the other, 9 to 28 s for each product beside 0.3 to 3 s by threads. The candidates are the same.
    """
    from unittest.mock import patch

    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    plain = getattr(AlgorithmSelectorCache, "make_precompile_fn", None)
    if plain is None:  # another release of torch
        return

    def by_threads(self: Any, *args: Any, **settings: Any) -> Any:
        with patch.object(AsyncCompile, "use_process_pool", lambda *_: False):
            return plain(self, *args, **settings)

    AlgorithmSelectorCache.make_precompile_fn = by_threads  # type: ignore[method-assign]


def compared(case: Case, row: dict[str, Any], o: argparse.Namespace, tag: str) -> dict[str, Any]:
    """What a process finds: compilations, errors, and times where it compiles both."""
    import torch

    out, stage = Path(o.out), row["stage"]
    alone = AGAIN.get(stage, stage)
    loss, reference, row["eager"] = case.reference(o.exact and alone not in ARMS)
    made: dict[str, Any] = {}
    if alone not in ARMS or stage in AGAIN:
        torch.compile(lambda x: x.exp() + 1)(torch.ones(64, device=case.device))  # what a first call loads
    for arm in (alone,) if alone in ARMS else ARMS[:: -1 if o.ours_first else 1]:
        own = row["mode"]
        if stage == TUNED:
            own = o.ours if arm == "syncverify" else TUNED_MODES[arm]
            row["modes"] = {**row.get("modes", {}), arm: own}
        kept_by = "inductor" if stage == TUNED and own == TUNED_MODES["inductor"] else arm
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(out / f"caches.{row['model']}.{own}.{kept_by}")
        # else Triton's kernels would lie where the first program of the process had them
        os.environ["TRITON_CACHE_DIR"] = str(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "triton" / "0")
        with profiled(out / f"{tag}.{arm}.profile") if o.where else nullcontext():
            made[arm], found = compiled_first(case, arm, own, o.runner, stage != TUNED or not case.training)
        errors = far(found.pop("loss"), found.pop("gradients"), loss, reference)
        row[arm] = {**found, **errors}
    row["regions"], row["seconds"], row["ours_first"] = regions_of(stage), dict(SECONDS), o.ours_first
    if alone not in ARMS and case.device == "cuda":
        row["gpu"] = torch.cuda.get_device_name()
        measure(case, made, row, o.profile)
    return row


def kept(o: argparse.Namespace, row: dict[str, Any]) -> None:
    """Writes down what a process found."""
    with open(Path(o.out) / "rows.jsonl", "a") as rows:
        rows.write(json.dumps(row, default=str) + "\n")
    print(summary(row), flush=True)


def measure(case: Case, made: dict[str, Any], row: dict[str, Any], profiled: bool) -> None:
    """Times of both, in alternation, and what the GPU does."""
    calls = {"forward": case.forward, **({"step": case.step} if case.training else {})}
    if row["stage"] == TUNED and case.training:
        del calls["forward"]
    for _ in range(2):
        for arm, f in made.items():
            for what, call in calls.items():
                row[arm].setdefault(f"{what}_ms", []).append(timed(lambda f=f, call=call: call(f)))
    for what in calls:
        ms = [min(row[arm][f"{what}_ms"]) for arm in ARMS]
        row[f"{what}_ratio"] = ms[0] / ms[1]
    for arm, f in made.items():
        for what, call in calls.items():
            if arm == "inductor" and not profiled:
                continue
            kernels = profile_of(lambda f=f, call=call: call(f))
            row[arm][f"{what}_share"] = share_of(kernels)
            row[arm][f"{what}_busy_ms"] = sum(ms for ms, *_ in kernels)
            row[arm][f"{what}_kernels"] = kernels[:60]


def summary(row: dict[str, Any]) -> str:
    """One line of what a process found."""
    parts = [f"{row['model']} {row['mode']} {row['stage']}:"]
    for arm in ARMS:
        r = row.get(arm)
        if r:
            text = f"{arm} compile {r['compile_s']:.1f} + {r['compile_forward_s']:.1f} s"
            text += f", loss {r['loss_rel']:.1e}" + (f", grad {r['grad_rel']:.1e}" if "grad_rel" in r else "")
            for what in ("step", "forward"):
                if f"{what}_ms" in r:
                    text += f", {what} {min(r[f'{what}_ms']):.2f} ms"
                if f"{what}_share" in r:
                    text += f", proved {r[f'{what}_share']:.3f}"
            parts.append(text)
    ratios = [f"{what} {row[f'{what}_ratio']:.3f}" for what in ("step", "forward") if f"{what}_ratio" in row]
    parts += [f"ratios {' '.join(ratios)}"] if ratios else []
    if row["seconds"]:
        parts.append(", ".join(f"{what} {s:.1f}" for what, s in row["seconds"].items()))
    if row["regions"]:
        taken = [r for r in row["regions"] if not r["refused"]]
        late = [r for r in row["regions"] if "in time" in r["refused"] or "was over" in r["refused"]]
        alone = sum(r["kind"] == "product" and r["operations"] == 1 for r in taken)
        parts.append(
            f"kernels {len(taken)} ({alone} products alone) of {len(row['regions'])}, late {len(late)}"
        )
    return " | ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=",".join(USUAL))
    parser.add_argument("--modes", default="default", help="default, reduce-overhead, max-autotune, ...")
    parser.add_argument("--runner", default="gate")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--forward", action="store_true", help="forward passes alone")
    parser.add_argument("--steps", action="store_true", help="of ``tuned``, training steps alone")
    parser.add_argument("--ours", default=TUNED_MODES["syncverify"], help="of ``tuned``, our mode")
    parser.add_argument("--profile", action="store_true", help="Inductor's kernels, too")
    parser.add_argument("--again", action="store_true", help="each arm in a second process of its own")
    parser.add_argument("--apart", action="store_true", help="no model is loaded while a process runs")
    parser.add_argument("--where", action="store_true", help="profiles of Python in compilations")
    parser.add_argument("--ours-first", action="store_true", help="Inductor last, in one process with both")
    parser.add_argument(
        "--processes",
        default="",
        help="these alone: MODEL/MODE/STAGE,...; stages: " + ", ".join((*STAGES, *AGAIN, TUNED)),
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        print("torch and transformers are not installed: nothing to measure")
        return
    if o.child:
        child(o)
        return
    Path(o.out).mkdir(parents=True, exist_ok=True)
    stages = (*ARMS, *(AGAIN if o.again else ()), *STAGES[len(ARMS) :])
    waiting = [f"{n}/{m}/{s}" for m in o.modes.split(",") for n in o.models.split(",") for s in stages]
    if o.processes:
        waiting = o.processes.split(",")
    _run(waiting, o, time.time() + o.seconds)


def _run(waiting: list[str], o: argparse.Namespace, until: float) -> None:
    """One process after the other; the next one loads its model while the last one runs, or after it."""
    same = [f"--{k}={getattr(o, k)}" for k in ("out", "runner", "layers", "ours")]
    flags = ("exact", "profile", "forward", "steps", "ours_first", "where")
    same += [f"--{k.replace('_', '-')}" for k in flags if getattr(o, k)]
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    while waiting or running:
        running = [(n, p) for n, p in running if p.poll() is None and not _late(n, p, o, until)]
        begun = [n for n, _ in running if _since(n, o) is not None]
        if waiting and time.time() < until and len(running) == len(begun) < (1 if o.apart else 2):
            name = waiting.pop(0)
            (Path(o.out) / f"{name.replace('/', '.')}.begun").unlink(missing_ok=True)
            running.append((name, subprocess.Popen([sys.executable, __file__, f"--child={name}", *same])))
        elif waiting and time.time() >= until:
            print("not begun:", ", ".join(waiting), flush=True)
            waiting = []
        time.sleep(0.1)


def _since(name: str, o: argparse.Namespace) -> float | None:
    """When a process got the machine."""
    file = Path(o.out) / f"{name.replace('/', '.')}.begun"
    text = file.read_text() if file.exists() else ""
    return float(text) if text else None


def _late(name: str, process: subprocess.Popen[bytes], o: argparse.Namespace, until: float) -> bool:
    """Ends a process that takes too long."""
    since = _since(name, o)
    if since is None or time.time() < min(since + o.limit, until + o.limit / 2):
        return False
    print(f"{name} is ended after {time.time() - since:.0f} s", flush=True)
    process.kill()
    process.wait()
    return True


if __name__ == "__main__":
    main()
