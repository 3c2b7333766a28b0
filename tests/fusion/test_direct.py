"""Elementwise fusions whose threads load their own parts of a tile: no shared memory, no synchronization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy, ScopeKind
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule
from syncverify.fusion.plan import launch_values, plan_of
from syncverify.simulate import ir

NAMES = ("mul_bf16", "normalize", "bias_gelu", "gate_pair", "dropout_mask", "rotary_pairs")


@pytest.mark.parametrize(
    "settings", ["", "tile=512 compute_warps=2", "grid=persistent tile=2048 compute_warps=1"]
)
@pytest.mark.parametrize("name", NAMES)
def test_threads_that_load_their_own_parts(name: str, settings: str) -> None:
    fusion = getattr(examples, name)
    plan = plan_of(fusion, Schedule(source="direct").with_settings(settings.split()))
    for sizes in ({"R": 37, "C": 1000}, {"R": 3, "C": 34}):
        variant = plan.variant(sizes)
        kernel = plan.build(variant, Policy.PRACTICAL)
        assert not kernel.shared and not kernel.barriers
        values = launch_values(fusion, kernel, sizes, plan.most_blocks(variant, 3))
        tiles = max(1, sizes["R"] * sizes["C"] // plan.schedule.tile)
        assert values["blocks"] == (min(3, tiles) if "persistent" in settings else tiles)
        given = fusion.random_inputs(sizes)
        found = ir.run(kernel, values, given)
        for o, want in zip(fusion.outputs, fusion.reference(given), strict=True):
            got = np.asarray(found[o.name], np.float64)
            np.testing.assert_allclose(got, np.asarray(want, np.float64), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["mul", "bias_gelu"])
def test_proved_for_every_size(name: str, tmp_path: Path) -> None:
    kernel = gate.compile(getattr(examples, name), cache=Cache(tmp_path))
    assert isinstance(kernel, gate.CompiledKernel) and not kernel.ir.barriers
    assert kernel.report.scope.kind is kernel.ptx_report.scope.kind is ScopeKind.ALL
    values = kernel.launch_values({"R": 10_000, "C": 8192})
    assert values["blocks"] == 10_000 * 8192 // kernel.schedule.tile and values["each"] == 1


@pytest.mark.parametrize(
    ("hint", "texts"),
    [
        ("streaming", ["st.global.cs.v4"]),
        ("loads", ["ld.global.cs.v4"]),
        ("past", ["ld.global.L1::no_allocate.v4"]),
        ("normal", ["ld.global.nc.v4", "st.global.v4"]),
        ("auto", ["createpolicy.fractional.L2::evict_last", "ld.global.L2::cache_hint.v4"]),
    ],
)
def test_what_caches_are_told(hint: str, texts: list[str], tmp_path: Path) -> None:
    source = ["source=direct"] if hint != "auto" else []
    schedule = Schedule().with_settings([f"cache={hint}", "dependent=no", *source])
    kernel = gate.compile(examples.mul, schedule, cache=Cache(tmp_path))
    assert kernel.ptx_report.scope.kind is ScopeKind.ALL
    assert all(text in kernel.ptx for text in texts), kernel.ptx


@pytest.mark.parametrize(
    ("name", "warps", "tile", "blocks"),
    [
        ("bias_gelu", 4, 1024, 16),
        ("scale", 8, 2048, 8),
        ("dropout_mask", 8, 8192, 2),
        ("mul_bf16", 16, 4096, 2),
    ],
)
def test_tiles_that_fill_an_sm(name: str, warps: int, tile: int, blocks: int) -> None:
    chosen = plan_of(getattr(examples, name)).schedule
    assert isinstance(chosen, Schedule)
    assert (chosen.compute_warps, chosen.tile, chosen.blocks_per_sm) == (warps, tile, blocks)


def test_what_says_nothing_of_a_ring_has_none() -> None:
    def sources(*settings: str) -> str:
        return plan_of(examples.mul, Schedule().with_settings(settings)).schedule.source

    assert plan_of(examples.mul).schedule.source == sources("cache=streaming") == "direct"
    assert sources("stages=3") == sources("store=tma") == sources("source=bulk") == "bulk"
    assert plan_of(examples.rotary_halves).schedule.source == "bulk"  # tiles hold whole rows


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("mul", "source=direct stages=2", "source=direct has no stages"),
        ("mul", "source=direct store=tma", "source=direct has no stages"),
        ("rotary_halves", "source=direct", "goes through tiles"),
        ("transposed", "source=direct", "meet in shared memory"),
    ],
)
def test_what_needs_a_ring_says_so(name: str, settings: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(getattr(examples, name), Schedule().with_settings(settings.split()))
