"""From calls of the driver to launches on record."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from syncverify.record.driver import (
    BUFFER_POINTER,
    BUFFER_SIZE,
    CLUSTER_DIMENSION,
    ELEMENTS,
    SWIZZLES,
    Driver,
    EncodeTiled,
    GetFunction,
    LaunchConfig,
    LaunchKernel,
    LaunchKernelEx,
    Load,
    OfKernel,
)
from syncverify.record.launches import MAP_BYTES, Dims, Image, Journal, Launch, TensorMap

#: Which call each name of the driver is; streams of each thread have names of their own.
PER_THREAD = ("_ptsz", "_ptds")
LAUNCHES = frozenset({"cuLaunchKernel", "cuLaunchCooperativeKernel"})
LOADS = frozenset({"cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData"})
LOOKUPS = frozenset({"cuModuleGetFunction", "cuLibraryGetKernel"})


@dataclass(slots=True)
class Listener:
    """Takes note of calls. A call is told of twice, before (``entered``) and after (``left``) it."""

    driver: Driver
    journal: Journal = field(default_factory=Journal)
    modules: dict[int, int] = field(default_factory=dict)  # handle -> image
    functions: dict[int, tuple[str, int]] = field(default_factory=dict)  # handle -> its name and image

    def entered(self, call: str, arguments: int, symbol: str = "") -> None:
        """Before a call. ``arguments``: address of its structure; ``symbol``: the kernel, if it is told."""
        call = _plain(call)
        if call in LAUNCHES:
            a = LaunchKernel.from_address(arguments)
            extra = a.extra if call == "cuLaunchKernel" else None
            self._launch(
                a.function, symbol, a.grid.dims(), a.block.dims(), a.dynamic_smem, (), a.params, extra
            )
        elif call == "cuLaunchKernelEx":
            x = LaunchKernelEx.from_address(arguments)
            c: LaunchConfig = x.config.contents
            self._launch(
                x.function,
                symbol,
                c.grid.dims(),
                c.block.dims(),
                c.dynamic_smem,
                _cluster(c),
                x.params,
                x.extra,
            )

    def left(self, call: str, arguments: int) -> None:
        """After a call that did not fail."""
        call = _plain(call)
        if call in LOADS:
            a = Load.from_address(arguments)
            data = _image(a.image)
            if data is not None and a.module:
                self.modules[a.module[0] or 0] = len(self.journal.images)
                self.journal.images.append(Image(data))
        elif call in LOOKUPS:
            g = GetFunction.from_address(arguments)
            name = (g.name or b"").decode(errors="replace")
            self.functions[g.function[0] or 0] = name, self.modules.get(g.module or 0, -1)
        elif call == "cuKernelGetFunction":
            k = OfKernel.from_address(arguments)
            if k.kernel in self.functions:
                self.functions[k.function[0] or 0] = self.functions[k.kernel]
        elif call == "cuTensorMapEncodeTiled":
            e = EncodeTiled.from_address(arguments)
            self.journal.maps[ctypes.string_at(e.map, MAP_BYTES)] = _tensor_map(e)

    def _launch(
        self, function: int, symbol: str, grid: Dims, block: Dims, smem: int, cluster: tuple[int, ...],
        params: ctypes._Pointer[ctypes.c_void_p] | None, extra: ctypes._Pointer[ctypes.c_void_p] | None,
    ) -> None:  # fmt: skip
        name, image = self.functions.get(function, ("", -1))
        name = name or symbol
        sizes = self.driver.param_sizes(function)
        if not name or sizes is None:
            why = "the driver does not tell the sizes of its parameters" if name else "its name is not known"
            self.journal.unreadable[name or "?"] = why
            return
        values = tuple(_values(sizes, params, extra))
        addresses = (v for p in values for _, v in words(p) if v and self.driver.is_address(v))
        registers = self.driver.registers(function)
        cluster = cluster or self.driver.cluster(function)
        launch = Launch(name, grid, block, smem, values, frozenset(addresses), cluster, registers, image)
        self.journal.add(launch)


def words(data: bytes) -> Iterator[tuple[int, int]]:
    """The numbers of 8 bytes that stand at multiples of 8."""
    for at in range(0, len(data) - 7, 8):
        yield at, struct.unpack_from("<Q", data, at)[0]


def _plain(call: str) -> str:
    return next((call.removesuffix(s) for s in PER_THREAD if call.endswith(s)), call)


def _values(
    sizes: list[tuple[int, int]],
    params: ctypes._Pointer[ctypes.c_void_p] | None,
    extra: ctypes._Pointer[ctypes.c_void_p] | None,
) -> Iterator[bytes]:
    """The bytes of each parameter: where an array says that they lie, or in one buffer."""
    if params:
        for i, (_, size) in enumerate(sizes):
            yield ctypes.string_at(params[i] or 0, size)
        return
    found: dict[int, int] = {}
    i = 0
    while extra and (key := extra[i]):  # a list that 0 ends
        found[key] = extra[i + 1] or 0
        i += 2
    if BUFFER_POINTER not in found or BUFFER_SIZE not in found:
        return
    buffer = ctypes.string_at(found[BUFFER_POINTER], ctypes.c_size_t.from_address(found[BUFFER_SIZE]).value)
    for offset, size in sizes:
        yield buffer[offset : offset + size].ljust(size, b"\0")


def _cluster(config: LaunchConfig) -> tuple[int, ...]:
    for i in range(config.count):
        attribute = config.attributes[i]
        if attribute.id == CLUSTER_DIMENSION:
            return tuple(attribute.value[:3])
    return ()


def _image(address: int | None) -> bytes | None:
    """The bytes of loaded code: an ELF file as long as its headers say, or text; None for others."""
    if not address:
        return None
    head = ctypes.string_at(address, 4)
    if head == b"\x7fELF":
        segments, sections = struct.unpack("<QQ", ctypes.string_at(address + 32, 16))  # e_phoff, e_shoff
        # e_phentsize, e_phnum, e_shentsize, e_shnum: both tables stand behind all else in a cubin
        segment, m, section, n = struct.unpack("<HHHH", ctypes.string_at(address + 54, 8))
        return ctypes.string_at(address, max(segments + segment * m, sections + section * n))
    if head[:1] in (b"/", b".", b"\n", b"\r", b" ", b"\t"):
        return ctypes.string_at(address)
    return None


def _tensor_map(e: EncodeTiled) -> TensorMap:
    steps = [e.element_strides[i] for i in range(e.rank)] if e.element_strides else [1] * e.rank
    if steps and not e.interleave:
        steps[0] = 1  # CUDA driver API, cuTensorMapEncodeTiled: the innermost dimension has no stride then
    box = tuple(-(-e.box[i] // max(steps[i], 1)) for i in range(e.rank))
    unsaid = []
    if e.interleave:
        unsaid.append(f"interleaved ({e.interleave})")
    if not 0 <= e.dtype < len(ELEMENTS):
        unsaid.append(f"elements of data type {e.dtype}")
    if not 0 <= e.swizzle < len(SWIZZLES):
        unsaid.append(f"swizzle {e.swizzle}")
    known = not unsaid
    return TensorMap(
        ELEMENTS[e.dtype] if known else "", box, SWIZZLES[e.swizzle] if known else "", ", ".join(unsaid)
    )


__all__ = ["Listener", "words"]
