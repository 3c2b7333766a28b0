"""Random pipelines without synchronization: buffers handed from role to role, and to several readers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from syncverify.ir.builder.kernel_builder import KernelBuilder, block, tid
from syncverify.ir.expr import Expr, Var
from syncverify.ir.nodes import Kernel

TILE = 256
ROUNDS = 5
BLOCKS = 2
#: Warps of the groups that compute; each issuer of copies is one more warp.
GROUPS = ((0, 2), (2, 4))

#: What a change does: its name, whether elements change places, which input it adds.
Step = tuple[str, bool, int | None]


def pipeline(seed: int) -> tuple[Kernel, Callable[[dict[str, Any]], dict[str, Any]]]:
    """A kernel and what it computes. Each round: tiles come in, are changed by groups of warps, and go out.

    At random: how tiles come in (bulk copy, cp.async, plain loads), how many slots a buffer has, which group
    does a change, whether in place, own elements or those of others, whether the result goes out by a bulk
    store of a role of its own, of a group's first warp, or by plain stores.
    """
    rng = random.Random(seed)
    inputs = rng.choice([1, 1, 2])
    changes = rng.choice([1, 1, 2, 3])
    ways = [rng.choice(["bulk", "bulk", "cp", "plain"]) for _ in range(inputs)]
    out_way = rng.choice(["role", "group", "plain"])
    slots = [rng.randint(1, 3) for _ in range(inputs + changes)]
    issuers = sum(w == "bulk" for w in ways) + (out_way == "role")
    k = KernelBuilder(f"pipeline{seed}", grid=BLOCKS, block=128 + 32 * issuers)
    n = k.param("N", "i32", default=ROUNDS)
    k.assume(n >= 0)
    total = BLOCKS * n * TILE
    a = [k.tensor(f"a{j}", "f32", [total], "in") for j in range(inputs)]
    out = k.tensor("out", "f32", [total], "out")
    buffers = [k.shared(f"t{j}", "f32", [s, TILE]) for j, s in enumerate(slots)]
    bars = [k.mbarrier(f"full{j}") for j in range(inputs)]
    next_warp = 4
    meaning: list[Step] = []

    def thread(group: tuple[int, int]) -> Expr:
        return Var("tid") - group[0] * 32 if group[0] else tid

    per = TILE // 64  # elements of one thread of a group
    with k.for_("i", 0, n) as i:
        at = (block * n + i) * TILE
        for j in range(inputs):
            place = buffers[j][i % slots[j]]
            if ways[j] == "bulk":
                with k.role(f"load{j}", warps=(next_warp, next_warp + 1)):
                    k.bulk_load(place, a[j][at:TILE], bars[j])
                next_warp += 1
                continue
            group = rng.choice(GROUPS)
            me = thread(group) * per
            with k.role(f"group{group[0]}", warps=group):
                if ways[j] == "cp":
                    k.cp_async(place[me:per], a[j][at + me : per])
                else:
                    x = k.ld_global(a[j][at + me : per], k.fresh(None, "x"))
                    k.st_shared(place[me:per], x)
        current = 0
        for c in range(changes):
            group = rng.choice(GROUPS)
            me = thread(group) * per
            swap = rng.random() < 0.5
            in_place = rng.random() < 0.3 and not swap
            other = inputs - 1 if c == 0 or rng.random() < 0.3 else None
            target = current if in_place else inputs + c
            with k.role(f"group{group[0]}", warps=group):
                source = (TILE - per) - me if swap else me
                x = k.ld_shared(buffers[current][i % slots[current]][source:per], k.fresh(None, "x"))
                y = x * 2.0
                if other and other != current:
                    z = k.ld_shared(buffers[other][i % slots[other]][me:per], k.fresh(None, "x"))
                    y = x * 2.0 + z
                    meaning.append(("add", swap, other))
                else:
                    meaning.append(("double", swap, None))
                k.st_shared(buffers[target][i % slots[target]][me:per], y)
            current = target
        place = buffers[current][i % slots[current]]
        if out_way == "role":
            with k.role("store", warps=(next_warp, next_warp + 1)):
                k.bulk_store(out[at:TILE], place)
        else:
            group = rng.choice(GROUPS)
            me = thread(group) * per
            with k.role(f"group{group[0]}", warps=group):
                if out_way == "group":
                    with k.role(f"issue{group[0]}", warps=(group[0], group[0] + 1)):
                        k.bulk_store(out[at:TILE], place)
                else:
                    x = k.ld_shared(place[me:per], k.fresh(None, "x"))
                    k.st_global(out[at + me : per], x)
    return k.build(), lambda arrays: {"out": _computed(meaning, arrays, per)}


def _computed(meaning: list[Step], arrays: dict[str, Any], per: int) -> Any:
    x = arrays["a0"].reshape(-1, TILE)
    for what, swap, other in meaning:
        y = x.reshape(len(x), -1, per)[:, ::-1].reshape(len(x), TILE) if swap else x
        x = y * 2 + (arrays[f"a{other}"].reshape(-1, TILE) if what == "add" else 0)
    return x.reshape(-1)


def inputs(kernel: Kernel, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    names = [t.name for t in kernel.tensors if t.mode == "in"]
    return {name: rng.standard_normal(BLOCKS * ROUNDS * TILE).astype(np.float32) for name in names}
