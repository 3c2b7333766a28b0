"""Launches with parameters that are packed once, on a driver that only looks at them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from syncverify.base.source import InputError
from syncverify.codegen import driver, packed
from syncverify.codegen.driver import INTEGERS, Function
from syncverify.codegen.packed import Launcher, Shape
from syncverify.codegen.tensor_maps import EncodedMap

CONTEXT, HANDLE = 11, 22


@dataclass
class Driver:
    """What was launched: the blocks and the stream, and each parameter as ``reads`` reads it."""

    reads: list[Callable[[int], Any]] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    context: int = 0

    def current(self, context: int) -> int:
        self.context = context
        return 0

    def launch(self, config: int, function: int, parameters: int, extra: Any) -> int:
        assert self.context == CONTEXT and function == HANDLE and extra is None
        c = packed._Config.from_address(config)
        places = (ctypes.c_void_p * len(self.reads)).from_address(parameters)
        seen = {
            "grid": tuple(c.grid), "block": tuple(c.block), "shared": c.shared, "stream": c.stream or 0,
            "values": [read(place) for read, place in zip(self.reads, places, strict=True)],
        }  # fmt: skip
        if c.count:
            a = packed._Attribute.from_address(c.attributes)
            seen["attribute"] = (c.count, a.id, a.value[0])
        self.seen.append(seen)
        return self.status


def pointer(place: int) -> int:
    return ctypes.c_uint64.from_address(place).value


def word(place: int) -> int:
    return ctypes.c_int32.from_address(place).value


def long(place: int) -> int:
    return ctypes.c_int64.from_address(place).value


def text(place: int) -> bytes:
    return ctypes.string_at(place, 8)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(packed, "functions", lambda: (found.current, found.launch))
    monkeypatch.setattr(driver, "context", lambda device: CONTEXT)
    monkeypatch.setattr(driver, "error", lambda status: f"number {status}")
    return found


def shape(dependent: bool = False, *numbers: tuple[int, str]) -> Shape:
    values = tuple((value, INTEGERS[kind]) for value, kind in numbers)
    return Shape(Function(HANDLE, None, 4096), (7, 2, 1), (128, 1, 1), values, 0, dependent)


def test_structures_are_as_the_driver_has_them() -> None:
    assert ctypes.sizeof(packed._Attribute) == 72 and packed._Attribute.value.offset == 8
    places = [getattr(packed._Config, n).offset for n in ("grid", "block", "shared", "stream", "attributes")]
    assert [*places, packed._Config.count.offset] == [0, 12, 24, 32, 40, 48]
    assert ctypes.sizeof(packed._Config) == 56


def test_the_attribute_has_the_driver_s_number() -> None:
    ids = pytest.importorskip("cuda.bindings.driver").CUlaunchAttributeID
    assert packed._DEPENDENT == int(ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)


def test_each_launch_has_its_own_addresses_and_stream(fake: Driver) -> None:
    fake.reads = [pointer, pointer, word, long]
    launch = Launcher(shape(False, (-3, "i32"), (1 << 40, "i64")), 2, [(0, 0), (1, 0)])
    launch([0x7F00_0000_1000, 0x7F00_0000_2000], 0)
    launch([0x7F00_0000_3000, 0x7F00_0000_1000], 99)
    first, second = fake.seen
    assert first == {
        "grid": (7, 2, 1), "block": (128, 1, 1), "shared": 4096, "stream": 0,
        "values": [0x7F00_0000_1000, 0x7F00_0000_2000, -3, 1 << 40],
    }  # fmt: skip
    assert second["values"][:2] == [0x7F00_0000_3000, 0x7F00_0000_1000] and second["stream"] == 99


def test_places_inside_tensors_and_in_another_order(fake: Driver) -> None:
    fake.reads = [pointer] * 3
    Launcher(shape(), 3, [(2, 0), (0, 64), (2, 8)])([1024, 2048, 4096], 5)
    assert fake.seen[0]["values"] == [4096, 1088, 4104]


def test_fewer_places_than_addresses(fake: Driver) -> None:
    fake.reads = [pointer]
    Launcher(shape(), 2, [(0, 0)])([1024, 2048], 5)
    assert fake.seen[0]["values"] == [1024]


def test_a_dependent_launch_says_so(fake: Driver) -> None:
    Launcher(shape(dependent=True), 0, [])([], 0)
    Launcher(shape(), 0, [])([], 0)
    assert fake.seen[0]["attribute"] == (1, 6, 1) and "attribute" not in fake.seen[1]


def test_maps_are_encoded_once_for_each_address(fake: Driver) -> None:
    made: list[int] = []

    def encode(address: int) -> EncodedMap:
        made.append(address)
        found = EncodedMap()
        ctypes.memmove(found.address, address.to_bytes(8, "little"), 8)
        return found

    fake.reads = [pointer, text, word]
    launch = Launcher(shape(False, (5, "i32")), 2, [(1, 0)], [(0, encode)])
    for a in (1024, 2048, 1024, 2048, 1024):
        launch([a, a + 16], 0)
    assert made == [1024, 2048]
    for seen, a in zip(fake.seen, (1024, 2048, 1024, 2048, 1024), strict=True):
        assert seen["values"] == [a + 16, a.to_bytes(8, "little"), 5]
    for a in range(0, 200 * 16, 16):
        launch([a, 0], 0)
    assert fake.seen[-1]["values"][1] == (199 * 16).to_bytes(8, "little")
    assert len(launch._encoded[0]) <= packed._MOST_MAPS


def test_what_the_driver_refuses_is_told(fake: Driver) -> None:
    launch = Launcher(shape(), 0, [])
    fake.status = 719
    with pytest.raises(InputError, match="number 719"):
        launch([], 0)


def test_threads_do_not_write_to_each_others_parameters(fake: Driver) -> None:
    """All wait inside the driver until every thread is there; then each finds what it gave."""
    fake.reads = [pointer]
    count = 6
    meeting, found = threading.Barrier(count), dict[int, int]()

    def launch(config: int, function: int, parameters: int, extra: Any) -> int:
        meeting.wait(10)
        stream = packed._Config.from_address(config).stream
        found[stream] = pointer((ctypes.c_void_p * 1).from_address(parameters)[0])
        return 0

    fake.launch = launch  # type: ignore[method-assign]
    launcher = Launcher(shape(), 1, [(0, 0)])
    threads = [threading.Thread(target=launcher, args=([1000 + k], k + 1)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k + 1: 1000 + k for k in range(count)}
