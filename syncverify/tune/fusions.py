"""The tuner: tries schedules of a fusion for given sizes, times those that are proved, remembers the fastest.

Timing is the caller's: ``on_gpu`` here for a device, anything that returns seconds elsewhere.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from syncverify.base.cache_dir import digest
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.fusion.graph import Fusion
from syncverify.fusion.plan import plan_of, with_settings
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.schedule import Schedule
from syncverify.gate import fusions

#: Seconds that one call of a proved kernel takes at given sizes.
Timer = Callable[[fusions.CompiledKernel, Mapping[str, int]], float]

#: Settings that are tried beside the default ones, the most promising first.
_TILES = (
    "", "source=direct", "source=direct compute_warps=4", "source=direct blocks_per_sm=4",
    "source=direct cache=streaming", "source=direct cache=kept", "source=bulk", "stages=4",
    "blocks_per_sm=4 stages=2", "blocks_per_sm=1 stages=6", "async_warps=2",
    "store=tma", "mode=pipelined", "tile=2048 stages=4", "compute_warps=4 blocks_per_sm=4",
)  # fmt: skip
_ROWS = (
    "", "source=direct", "source=bulk", "warps=4", "warps=8", "warps=16", "warps=32", "source=bulk stages=2",
    "source=bulk stages=4", "grid=persistent", "blocks_per_sm=2", "blocks_per_sm=4", "cache=streaming",
    "cache=loads", "cache=normal", "cache=past", "cache=kept", "operands=registers", "operands=reload",
    "split=yes stages=1",
    "reread=yes", "reread=yes warps=4 blocks_per_sm=12", "reread=yes warps=8 blocks_per_sm=6",
    "reread=yes warps=16 blocks_per_sm=3", "reread=yes warps=32 blocks_per_sm=1",
    "warps=1 rows=4 blocks_per_sm=6",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """One schedule: its settings, and the seconds of a call, or why it was not timed."""

    settings: str
    seconds: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The fastest schedule for some sizes, and all that was tried: nothing, if it was remembered."""

    schedule: Schedule | RowSchedule
    settings: str
    trials: tuple[Trial, ...]


def candidates(fusion: Fusion, sizes: Mapping[str, int], settings: Sequence[str] = ()) -> tuple[str, ...]:
    """The settings to try, as text; ``settings`` that the caller fixes are part of each."""
    rows = fusion.reduced is not None
    fixed = {s.partition("=")[0] for s in settings}
    width = (f"width={sizes[fusion.dims[-1]]}",) if rows and "width" not in fixed else ()
    found = []
    for text in _ROWS if rows else _TILES:
        free = [s for s in text.split() if s.partition("=")[0] not in fixed]
        found.append(" ".join((*width, *settings, *free)))
    return tuple(dict.fromkeys(found))


def tune(
    fusion: Fusion,
    sizes: Mapping[str, int],
    timer: Timer,
    *,
    device: str = "",
    settings: Sequence[str] = (),
    policy: Policy = Policy.PRACTICAL,
    cache: Cache | None = None,
) -> Tuned:
    """The fastest proved schedule for these sizes, remembered for this ``device`` by its name.

    Only kernels that came out of the gate are timed. Raises InputError if no candidate can be proved.
    """
    store = cache or Cache.default()
    name = _name(fusion, sizes, device, settings, policy)
    remembered = store.read(name)
    if remembered is not None:
        text = str(json.loads(remembered)["settings"])
        return Tuned(with_settings(fusion, text.split()), text, ())
    trials = tuple(
        _trial(fusion, sizes, timer, text, policy, store) for text in candidates(fusion, sizes, settings)
    )
    timed = [t for t in trials if t.seconds is not None]
    if not timed:
        raise InputError(f"{fusion.name}: no schedule could be proved: {trials[0].reason}", fusion.span)
    best = min(timed, key=lambda t: t.seconds or 0.0)
    store.write(name, json.dumps({"settings": best.settings, "seconds": best.seconds}).encode())
    return Tuned(with_settings(fusion, best.settings.split()), best.settings, trials)


def _trial(
    fusion: Fusion, sizes: Mapping[str, int], timer: Timer, text: str, policy: Policy, cache: Cache
) -> Trial:
    try:
        plan = plan_of(fusion, with_settings(fusion, text.split()))
        kernel = fusions.compiled(plan, policy, cache=cache)
        _ = kernel.program(sizes).proofs
    except (InputError, fusions.VerificationError) as e:
        return Trial(text, None, str(e))
    return Trial(text, timer(kernel, sizes))


def _name(
    fusion: Fusion, sizes: Mapping[str, int], device: str, settings: Sequence[str], policy: Policy
) -> str:
    """The file of a choice: another function, other sizes or another tool make another one."""
    nodes = [(i, str(fusion.node(i))) for i in fusion.order()]
    parts: list[Any] = [
        tool_fingerprint(), str(fusion.inputs), str(fusion.outputs), nodes, sorted(sizes.items()), device,
        list(settings), policy.value, [f.name for f in fields(RowSchedule)],
    ]  # fmt: skip
    return f"{digest(json.dumps(parts))}.tuned.json"


def on_gpu(repeats: int = 20) -> Timer:
    """A timer of calls on the GPU with random inputs; needs torch. The median of ``repeats`` calls."""

    def timer(kernel: fusions.CompiledKernel, sizes: Mapping[str, int]) -> float:
        import torch  # type: ignore[import-not-found, unused-ignore]

        if not driver.available():
            raise InputError("tuning needs a GPU")
        kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        kinds |= {"i32": torch.int32, "i64": torch.int64}
        inputs = {
            name: torch.randn([sizes[d] for d in t.dims], device="cuda").abs().to(kinds[t.dtype])
            for name, t in kernel.fusion.inputs
        }
        times = []
        for turn in range(repeats + 3):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            kernel(**inputs)
            end.record()
            end.synchronize()
            if turn >= 3:
                times.append(float(start.elapsed_time(end)) / 1e3)
        return statistics.median(times)

    return timer
