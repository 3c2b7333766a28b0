"""The launch files that generators write, and how bytes of parameters become facts."""

from __future__ import annotations

import importlib
import struct
import tomllib
from pathlib import Path
from typing import Any

import pytest

FAMILIES = Path(__file__).parent / "families"


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The generators' modules by name: they run outside the repository, as programs."""
    monkeypatch.syspath_prepend(str(FAMILIES))
    return importlib.import_module


def launch(emit: Any) -> Any:
    sizes = {
        0: emit.ptr("A"),
        1: emit.Leaf("i32", emit.Size("K", 256)),
        2: emit.tensormap("B", "f16", [64, 128], 128),
    }
    return emit.Launch((128, 1, 1), (emit.Size("M", 2),), (2, 1, 1), 1024, sizes, ("K % 64 == 0",))


def table(emit: Any, scope: str) -> dict[str, Any]:
    return tomllib.loads(emit.launch_toml(launch(emit), scope))["kernel"]["*"]


def test_exact_facts_are_numbers(families: Any) -> None:
    facts = table(families("emit"), "exact")
    assert facts["grid"] == [2, 1, 1]
    assert facts["params"]["1"] == {"i32": 256}
    assert "assume" not in facts


def test_facts_for_every_size_name_them_and_leave_the_grid_open(families: Any) -> None:
    facts = table(families("emit"), "all")
    assert facts["params"]["1"] == {"i32": "K"}
    assert facts["assume"] == ["K % 64 == 0"]
    assert "grid" not in facts
    assert facts["params"]["2"] == {"tensormap": "B", "dtype": "f16", "box": [64, 128], "swizzle": "128B"}


def test_tables_in_memory_are_given_for_exact_sizes_alone(families: Any) -> None:
    emit = families("emit")
    launch = emit.Launch((32, 1, 1), params={0: emit.ptr("sizes", ("i32", (3, 4)))})
    given, left_open = (emit.launch_toml(launch, scope) for scope in ("exact", "all"))
    assert 'ptr = "sizes", holds = {i32 = [3, 4]}' in given
    assert "holds" not in left_open


def test_the_block_alone(families: Any) -> None:
    assert table(families("emit"), "block") == {"block": [128, 1, 1], "cluster": [2, 1, 1]}


def test_a_persistent_scheduler_lays_clusters_out_along_one_axis(families: Any) -> None:
    one_row = families("emit").one_row
    assert one_row([2, 2, 1], [2, 1, 1]) == ("grid.x == 2", "grid.z == 1")
    assert one_row([1, 4, 1], [1, 2, 1]) == ("grid.x == 1", "grid.z == 1")
    assert one_row([4, 4, 1], [1, 1, 1]) == ("grid.z == 1",)


def test_words_that_follow_the_size_become_expressions_of_it(families: Any) -> None:
    facts, emit = families("bytes_facts"), families("emit")
    samples = [facts.Sample(k, struct.pack("<iiii", 7, k, k // 64, k * k), {}) for k in (256, 384, 640)]
    exact, general = facts.leaves(samples, "K", [])
    assert [leaf.value for leaf in exact] == ["07000000", 256, 4, 65536]
    assert [leaf.value for leaf in general[:3]] == ["07000000", "K", "1 * K // 64"]
    assert general[3].value == emit.Size("K_at12", 65536)


def test_pointers_and_tensor_maps_are_found_in_bytes(families: Any) -> None:
    facts = families("bytes_facts")
    address = facts.FIRST_POINTER + facts.POINTER_STEP
    data = struct.pack("<32I", *[facts.MAP_MARK << 16 | 3] * 32) + struct.pack("<QQ", address, 5)
    made = {3: {"dtype": 9, "box": [64, 32], "swizzle": 2}}
    exact, _ = facts.leaves([facts.Sample(1, data, made)] * 2, "K", ["A", "B"])
    assert [leaf.kind for leaf in exact] == ["tensormap", "ptr", "bytes"]
    assert dict(exact[0].extra) == {"dtype": "bf16", "box": [64, 32], "swizzle": "64B", "at": 0}
    assert (exact[1].value, dict(exact[1].extra)) == ("B", {"at": 128})
