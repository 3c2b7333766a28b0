"""Schedules: how a fusion runs on the machine. Every field can be set from the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, Literal, TypeVar, get_args

from syncverify.base.schedule_fields import check_fields
from syncverify.base.source import InputError
from syncverify.codegen.accesses import CacheHint, Hint
from syncverify.fusion import row_strides
from syncverify.fusion.graph import Fusion
from syncverify.passes.registers import registers_at_entry

#: Shared memory of one SM of sm_90; every resident block takes 1 KB of it for itself.
SHARED_PER_SM = 228 * 1024
#: What a block needs beside its buffers: the system's kilobyte, and one for barriers and alignment.
RESERVED = 2 * 1024
#: The largest grid.
MOST_BLOCKS = 2**31 - 1
#: Bytes that a block reads and writes, if it starts while the kernel before ends.
LEAST_MOVED, MOST_MOVED = 8 * 1024, 64 * 1024
#: The same of a block that reads everything once, and writes next to nothing.
MOST_READ = 128 * 1024
#: What a schedule says, or leaves open.
YesNo = Literal["auto", "yes", "no"]
#: Slots of a circular buffer where the schedule does not say.
STAGES = 3


def shared_per_block(blocks_per_sm: int) -> int:
    """Bytes of buffers that a block may have, if that many are to be resident on an SM."""
    return SHARED_PER_SM // blocks_per_sm - RESERVED


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a fusion runs.

    ``tile``: elements per tile (0: chosen, see ``lower.fitted``). ``stages``: slots of each circular
    buffer. ``prefetch``: tiles in flight ahead of the one computed (None: as many as the mode allows).
    ``split``: which async warps load each input; several warps share its tile (None: round robin).
    ``store``: by the threads that compute, or staged and issued by one of them, or by a warp of its own.
    ``arrive``: every reader signals a free slot, or one lane of every warp. ``registers``: per thread of the
    async and of the compute warpgroups, for setmaxnreg. ``blocks_per_sm``: the persistent grid's size.
    ``index``: width of element indices. ``cache``: whether L2 is told that what is copied and stored
    (``streaming``), or loaded (``loads``), is used once; ``past``: L1 need not hold what is loaded; ``kept``:
    what is loaded leaves L2 last, and so what is stored sooner.
    ``source``: tiles come by bulk copies, or each thread loads its own part. ``grid``: as many blocks as run
    together, which take one tile after the other, or a block for each tile. ``dependent``: blocks start while
    the kernel before ends, and wait for that (programmatic dependent launch). ``ahead``: those that run first
    have their tiles brought to L2 while they wait.
    """

    tile: int = 0
    stages: int = 0
    prefetch: int | None = None
    async_warps: int = 1
    split: Mapping[str, tuple[int, ...]] | None = None
    mode: Literal["warp-specialized", "pipelined"] = "warp-specialized"
    store: Literal["direct", "tma", "role"] = "direct"
    store_stages: int = 2
    compute_warps: int = 8
    arrive: Literal["warp", "thread"] = "warp"
    registers: tuple[int, int] | None = None
    blocks_per_sm: int = 2
    index: Literal["i32", "i64"] = "i32"
    cache: Literal["auto", CacheHint] = "auto"
    source: Literal["auto", "bulk", "direct"] = "auto"
    grid: Literal["auto", "persistent", "tiles"] = "auto"
    dependent: YesNo = "auto"
    ahead: YesNo = "auto"

    def check(self) -> None:
        """Raises InputError for values that no fusion can use."""
        check_fields(self)
        require(0 <= self.stages <= 64, "stages must be 1 to 64")
        most = self.stages or STAGES
        require(self.prefetch is None or 1 <= self.prefetch <= most, f"prefetch must be 1 to stages ({most})")
        require(1 <= self.compute_warps <= 24, "compute_warps must be 1 to 24")
        require(1 <= self.async_warps <= 8, "async_warps must be 1 to 8")
        require(self.store_stages >= 1, "store_stages must be positive")
        require(1 <= self.blocks_per_sm <= 16, "blocks_per_sm must be 1 to 16")
        require(self.tile >= 0, "tile must be positive, or 0 to choose it")
        if self.mode == "pipelined":
            require(
                self.async_warps <= self.compute_warps, "pipelined: async_warps are among the compute_warps"
            )
            require(self.registers is None, "pipelined: registers (setmaxnreg) need mode warp-specialized")
        if self.store == "role":
            apart = self.mode == "warp-specialized" and self.registers is None
            require(apart, "store=role needs mode warp-specialized, without registers")
            require(self.prefetch in (None, most), "store=role requests as many tiles as there are stages")
        if self.source == "direct":
            require(self.alone, "source=direct has no stages, async warps or stores of its own")
        if self.registers is not None:
            low, high = self.registers
            require(
                all(24 <= r <= 256 and r % 8 == 0 for r in (low, high)) and low <= high,
                "registers must be two multiples of 8 from 24 to 256, the async warps' first",
            )
            require(
                self.compute_warps % 4 == 0, "registers: compute_warps must fill warpgroups (a multiple of 4)"
            )
            require(self.async_warps <= 4, "registers: async_warps must fit one warpgroup (at most 4)")
            entry = registers_at_entry((self.compute_warps + 4) * 32)
            require(low <= entry <= high, f"registers: {entry} at entry must lie between {low} and {high}")
            require(self.blocks_per_sm == 1, "registers: setmaxnreg needs blocks_per_sm=1")

    @property
    def alone(self) -> bool:
        """Whether it says nothing of a ring of buffers and of who fills or empties it."""
        shared = ("tile", "compute_warps", "blocks_per_sm", "source", *_OPEN)
        return self == Schedule(**{name: getattr(self, name) for name in shared})

    @property
    def open(self) -> bool:
        """Whether it leaves to the compiler how data moves."""
        return self == Schedule(**{name: getattr(self, name) for name in _OPEN})

    @property
    def hint(self) -> Hint:
        """What caches are told of global data."""
        return "normal" if self.cache == "auto" else self.cache

    def chosen(self) -> Schedule:
        """The schedule with its source, grid and stages: bulk copies where nothing is said of the source."""
        if self.source == "direct":
            return replace(self, grid="tiles" if self.grid == "auto" else self.grid)
        grid = "persistent" if self.grid == "auto" else self.grid
        return replace(self, source="bulk", grid=grid, stages=self.stages or STAGES)

    def most_blocks(self, resident: int) -> int:
        """The largest grid, on a machine on which so many blocks run together."""
        return MOST_BLOCKS if self.grid == "tiles" else resident

    @property
    def staged(self) -> bool:
        """Whether results go through shared memory and bulk stores."""
        return self.store != "direct"

    @property
    def prefetch_distance(self) -> int:
        """Tiles requested ahead: all slots, or one less where a block barrier frees the slot."""
        if self.prefetch is not None:
            return self.prefetch
        stages = self.stages or STAGES
        return stages if self.mode == "warp-specialized" else max(1, stages - 1)

    def with_settings(self, settings: Iterable[str]) -> Schedule:
        """The schedule with ``NAME=VALUE`` settings applied; raises InputError for a bad one."""
        result = apply_settings(self, settings, _PARSERS, _HELP)
        result.check()
        return result


def overlaps(moved: int, once: bool = False) -> bool:
    """Whether blocks that move so many bytes gain by starting while the kernel before ends; ``once``: they
    read only.

    An H200 starts no more than 0.8 such blocks a nanosecond: small ones would be fewer than memory serves.
    """
    return LEAST_MOVED <= moved <= (MOST_READ if once else MOST_MOVED)


def fetches(ahead: YesNo, dependent: YesNo, read: int, written: int) -> YesNo:
    """Whether blocks that wait for the kernel before have their first tiles brought to L2 meanwhile: those
    that read more than they write, for memory is busy with what was written. InputError if none waits."""
    require(ahead != "yes" or dependent == "yes", "ahead=yes needs dependent=yes: without, no block waits")
    if ahead != "auto":
        return ahead
    return "yes" if dependent == "yes" and read > written else "no"


def check_extent(fusion: Fusion, sizes: Mapping[str, int], index: str, ahead: int) -> None:
    """With 32-bit indices the last index that any thread forms must fit; ``ahead``: elements past the end."""
    elements = prod(sizes[d] for d in fusion.dims)
    if index == "i32" and elements + ahead >= 2**31:
        raise InputError(f"{fusion.name}: {elements} elements need the schedule's index=i64")
    for name, (span, step) in row_strides.extents(fusion, sizes).items():
        if index == "i32" and span + step + ahead >= 2**31:
            raise InputError(f"{fusion.name}: {name} spans {span} elements, for the schedule's index=i64")


#: Fields that leave to the compiler how data moves.
_OPEN = ("index", "cache", "grid", "dependent", "ahead")

S = TypeVar("S")


def apply_settings(
    schedule: S, settings: Iterable[str], parsers: Mapping[str, Any], help: Mapping[str, str]
) -> S:
    """A schedule with ``NAME=VALUE`` settings applied, by a parser and a word of help for every field."""
    changed: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in parsers:
            raise InputError(
                f"unknown setting {setting!r}: use NAME=VALUE with NAME one of {', '.join(parsers)}"
            )
        try:
            changed[name] = parsers[name](text)
        except ValueError:
            raise InputError(f"setting {name}: cannot use {text!r} ({help[name]})") from None
    return replace(schedule, **changed)  # type: ignore[type-var]


def require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(f"schedule: {message}")


def _optional_int(text: str) -> int | None:
    return None if text == "none" else int(text)


def choice(*options: str) -> Any:
    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(text)
        return text

    return parse


def _registers(text: str) -> tuple[int, int] | None:
    if text == "none":
        return None
    low, high = (int(x) for x in text.split(","))
    return low, high


def _split(text: str) -> dict[str, tuple[int, ...]] | None:
    if text == "none":
        return None
    result = {}
    for part in text.split(","):
        name, colon, warps = part.partition(":")
        if not colon or not name:
            raise ValueError(text)
        result[name.strip()] = tuple(int(w) for w in warps.split("+"))
    return result


_PARSERS: dict[str, Any] = {
    "tile": int, "stages": int, "prefetch": _optional_int, "async_warps": int, "split": _split,
    "mode": choice("warp-specialized", "pipelined"), "store": choice("direct", "tma", "role"),
    "store_stages": int, "compute_warps": int, "arrive": choice("warp", "thread"), "registers": _registers,
    "blocks_per_sm": int, "index": choice("i32", "i64"),
    "cache": choice("auto", *get_args(CacheHint)),
    "source": choice("auto", "bulk", "direct"), "grid": choice("auto", "persistent", "tiles"),
    "dependent": choice("auto", "yes", "no"), "ahead": choice("auto", "yes", "no"),
}  # fmt: skip
_HELP = {
    "tile": "a number", "stages": "a number", "prefetch": "a number or none", "async_warps": "a number",
    "split": "INPUT:WARP or INPUT:WARP+WARP, separated by commas, or none",
    "mode": "warp-specialized or pipelined", "store": "direct, tma or role",
    "store_stages": "a number", "compute_warps": "a number", "arrive": "warp or thread",
    "registers": "LOW,HIGH or none",
    "blocks_per_sm": "a number", "index": "i32 or i64", "cache": f"auto, {', '.join(get_args(CacheHint))}",
    "source": "auto, bulk or direct", "grid": "auto, persistent or tiles", "dependent": "auto, yes or no",
    "ahead": "auto, yes or no",
}  # fmt: skip
assert set(_PARSERS) == {f.name for f in fields(Schedule)}
