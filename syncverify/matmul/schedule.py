"""How a matrix product runs: tile, stages, roles, traversal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncverify.base.schedule_fields import check_fields
from syncverify.base.source import InputError
from syncverify.ir.layout import SHARED_LIMIT

#: Shared memory that is kept for barriers.
RESERVED = 1024
#: Shared memory that the hardware keeps for each block (CUDA Programming Guide, compute capability 9.0).
BLOCK_OWN = 1024
#: Bytes along K of one tile: a row of the 128-byte swizzle.
K_SPAN = 128
#: Bytes of the shortest row of a swizzle.
LEAST_ROW = 32
WARPGROUP = 128
#: Registers of an SM, and those that a thread needs beside its accumulators.
FILE, OTHER_REGISTERS = 65536, 26
#: Rows of C that tiles by columns stage at one time, at least and at most.
LEAST_STAGED, MOST_STAGED = 16, 104
#: Partial sums of a thread that are handed over at one time: multiples of 16 bytes, the best first.
DEPTHS = (32, 16, 28, 24, 20, 36)
#: Multiprocessors that rows of tiles are grouped for.
SMS = 132


@dataclass(frozen=True, slots=True)
class Schedule:
    """``tile_m`` x ``tile_n`` elements of C per block and turn, split by rows over ``consumers`` warpgroups.

    ``stages``: slots of the ring of loads (0: what fits, at most 8). ``pending``: wgmma groups in flight when
    a slot is released. ``persistent``: one block per SM goes through many tiles. ``group``: rows of tiles
    that are gone through together (0: as many as make what blocks read at one time nearly square).
    ``arrive``: who frees a slot, one lane of each warp or warpgroup.
    ``registers``: per thread of the loading and of the multiplying warpgroups (setmaxnreg).
    ``cluster``: blocks that load a part of a tile each and multicast it to all of them: one above the other,
    which share tiles of B, or ``beside`` each other, which share tiles of A.
    ``store``: results go to global memory directly, or through shared memory by tensor copies.
    ``pingpong``: the two warpgroups take the tiles of a persistent block in turn, each a whole one.
    ``laps``: then each tile goes round the ring an ``even`` number of times, or an ``odd`` one, with steps
    beyond K that bring zeros, so that a warpgroup's tiles begin at the same place; or they begin anywhere
    (``any``).
    ``split_k``: blocks (or clusters) of a block group, which share steps along K evenly; there are never more
    blocks than SMs. ``shares``: a block group shares ``split_k - 1`` tiles, each by two neighbours
    (``pairs``), or ``one`` tile, behind whole tiles of each block if it is persistent; or the runs of its
    blocks begin and end ``any``where inside its tiles. ``sums``: these add partial sums in order
    (``ordered``), or as they come (``any``). ``dependent``: blocks set their barriers up while the grid
    before still runs (programmatic dependent launch). ``resident``: blocks that an SM holds at one time, so
    that one stores while another multiplies. ``by_columns``: A and B change places, so that tiles are those
    of C's transpose: ``tile_m`` of its columns by ``tile_n`` of its rows, of which a few fill a tile.
    """

    tile_m: int = 128
    tile_n: int = 128
    consumers: int = 2
    stages: int = 0
    pending: Literal[0, 1] = 0
    persistent: bool = False
    group: int = 0
    arrive: Literal["warp", "warpgroup"] = "warp"
    registers: tuple[int, int] | None = None
    store: Literal["direct", "tma"] = "direct"
    cluster: Literal[1, 2, 4] = 1
    beside: bool = False
    pingpong: bool = False
    laps: Literal["even", "odd", "any"] = "even"
    split_k: int = 1
    shares: Literal["pairs", "one", "any"] = "pairs"
    sums: Literal["ordered", "any"] = "ordered"
    dependent: bool = False
    resident: int = 1
    by_columns: bool = False

    @property
    def title(self) -> str:
        """A short name: the tile, and a mark for each field that is not as in a plain schedule."""
        anyhow = (self.sums == "any" and self.split_k > 1) or (self.pingpong and self.laps == "any")
        marks = {
            "p": self.persistent, "t": self.store == "tma", "c": self.cluster == 2, "q": self.cluster == 4,
            "r": self.by_columns, "b": self.beside and self.cluster > 1, "o": self.pingpong,
            "odd": self.pingpong and self.laps == "odd",
            "d": self.dependent, "+": self.pending > 0, "w": self.arrive == "warpgroup",
            f"g{self.group}": self.group > 0, f"s{self.stages}": self.stages > 0,
            f"x{self.resident}": self.resident > 1,
            f"/{self.split_k}": self.split_k > 1,
            "one": self.split_k > 1 and self.shares == "one", "runs": self.streams, "any": anyhow,
        }  # fmt: skip
        return f"{self.tile_m}x{self.tile_n}" + "".join(m for m, given in marks.items() if given)

    def check(self, products: int = 1) -> None:
        """Raises InputError for values that no problem of that many products of one tile can use."""
        check_fields(self)
        self.fits(products)

    def fits(self, products: int = 1) -> None:
        """The same of a schedule whose fields are of their types, as those of the menu are."""
        _require(1 <= self.consumers <= 3, "consumers must be 1 to 3")
        _require(self.tile_m % (64 * self.sharing) == 0, "tile_m must be 64 rows or more for each consumer")
        _require(self.tile_n % 8 == 0 and 8 <= self.tile_n <= 256, "tile_n must be a multiple of 8 up to 256")
        _require(self.tile_m <= 256, "tile_m must be at most 256")
        _require(self.stages == 0 or 2 <= self.stages <= 16, "stages must be 2 to 16, or 0 to choose them")
        _require(self.cluster in (1, 2, 4), "cluster must be 1, 2 or 4")
        _require(
            self.tile_n % (8 * self.sharing_b) == 0,
            "a cluster shares out a tile of B in parts of whole eights",
        )
        _require(self.group >= 0, "group must be positive, or 0 to choose it")
        if self.pingpong:
            _require(self.persistent and self.consumers == 2, "pingpong is for two consumers, persistent")
            _require(self.split_k == 1, "pingpong is for whole tiles: no split_k")
        _require(1 <= self.split_k <= 16, "split_k must be 1 to 16")
        if self.split_k > 1:
            _require(
                not (self.persistent and self.streams), "runs go through many tiles anyway: not persistent"
            )
            _require(self.depth > 0, "split_k needs sums of a thread that are cut into equal parts")
            _require(self.sums == "ordered" or self.shares == "any", "sums=any is for shares=any")
            most = 16 // self.cluster
            _require(self.streams or self.split_k <= most, "a row of the grid has at most 16 blocks")
        _require(1 <= self.resident <= 4, "resident must be 1 to 4")
        own = min(255, FILE // (self.threads * self.resident))
        most = (self.registers[1] if self.registers else own) - OTHER_REGISTERS
        _require(
            self.accumulators * products <= most,
            f"a thread has no registers for that many accumulators: {self.accumulators * products} > {most}",
        )

    @property
    def grouped(self) -> int:
        """Rows of tiles (of clusters) that are gone through together: a little below the square of what all
        blocks have at one time, as measured on a GPU of 132 multiprocessors."""
        down, across = self.tile_m * self.sharing_b, self.tile_n * self.sharing_a
        return self.group or max(round(0.75 * (SMS / self.cluster * across / down) ** 0.5), 1)

    @property
    def threads(self) -> int:
        """Consumers first, then the warpgroup that loads."""
        return (self.consumers + 1) * WARPGROUP

    @property
    def many_tiles(self) -> bool:
        """Whether a block goes through several tiles, or parts of them."""
        return self.persistent or self.split_k > 1

    @property
    def proved_by_launch(self) -> bool:
        """Whether proofs for every size take long: tiles begin anywhere in the ring, or blocks share them."""
        return self.streams or (self.pingpong and self.laps == "any")

    @property
    def streams(self) -> bool:
        """Whether runs of blocks begin and end anywhere inside tiles."""
        return self.split_k > 1 and self.shares == "any"

    @property
    def sharing_a(self) -> int:
        """Blocks of a cluster that share tiles of A: they lie beside each other."""
        return self.cluster if self.beside else 1

    @property
    def sharing_b(self) -> int:
        """Blocks of a cluster that share tiles of B: they lie one above the other."""
        return 1 if self.beside else self.cluster

    @property
    def sharing(self) -> int:
        """Warpgroups that share a tile."""
        return 1 if self.pingpong else self.consumers

    @property
    def rows(self) -> int:
        """Rows of C that one warpgroup computes."""
        return self.tile_m // self.sharing

    @property
    def accumulators(self) -> int:
        return self.rows * self.tile_n // WARPGROUP

    @property
    def depth(self) -> int:
        """Partial sums of a thread that are read or written at one time; 0 if there is no such number."""
        return next((d for d in DEPTHS if self.accumulators % d == 0), 0)

    def width(self, size: int) -> int:
        """Columns of a part of a tile that is staged at one time: rows of the swizzle, or half ones, or rows
        without a swizzle; of tiles by columns, whose parts are rows of C, as many as divide the tile."""
        if self.by_columns:
            return max(w for w in range(8, MOST_STAGED + 1, 8) if self.tile_n % w == 0)
        whole = K_SPAN // size
        if self.tile_n % (whole // 2):
            return self._unswizzled
        return whole if self.tile_n % whole == 0 else whole // 2

    @property
    def _unswizzled(self) -> int:
        """Columns of a part whose rows need no swizzle: of an odd number of eights, so that rows below each
        other begin in other banks."""
        odd = [w for w in range(8, self.tile_n + 1, 16) if self.tile_n % w == 0]
        return max([w for w in odd if LEAST_STAGED < w <= MOST_STAGED], default=max(odd, default=8))

    def parts(self, size: int) -> int:
        """Parts of a tile's columns that go through a staging buffer in turn."""
        return self.tile_n // self.width(size)

    def store_slots(self, size: int) -> int:
        """Slots of a staging buffer: two where the parts are even in number."""
        return 2 - self.parts(size) % 2

    def staging(self, sizes: list[int]) -> int:
        """Bytes of the staging buffers for outputs with elements of those sizes."""
        if self.store == "direct":
            # partial sums are put together there
            return 2 * self.tile_m * K_SPAN if self.streams else 0
        most = max(sizes)
        width = self.width(most)
        _require(
            not self.by_columns or width >= min(LEAST_STAGED, self.tile_n),
            f"by_columns stages parts of {LEAST_STAGED} rows or more",
        )
        _require(
            self.by_columns or (width * min(sizes) >= LEAST_ROW and all(width * x % 16 == 0 for x in sizes)),
            f"store=tma needs a tile_n of whole rows of {K_SPAN} bytes, or of {K_SPAN // 2}",
        )
        return sum(sizes) * self.consumers * self.rows * width * self.store_slots(most)

    def columns(self, along_n: bool) -> int:
        """Columns of B that a step brings: whole panels of 64 where memory runs along N."""
        return -(-self.tile_n // 64) * 64 if along_n else self.tile_n

    def fitted_stages(self, staging: int = 0, products: int = 1, along_n: bool = False) -> int:
        """The stages: chosen, beside so many bytes of staging buffers, where that is left open.

        ``products``: right factors whose tiles a slot holds; ``along_n``: whether their memory runs so.
        """
        if self.stages:
            return self.stages
        slot = (self.tile_m + self.columns(along_n) * products) * K_SPAN
        # an SM keeps so much beside what each of its blocks asks for
        own = (SHARED_LIMIT + BLOCK_OWN) // self.resident - BLOCK_OWN
        found = min(8, (own - RESERVED - staging) // slot)
        _require(found >= 2, f"a tile of {self.tile_m} x {self.tile_n} leaves no room for two stages")
        # K is a multiple of a power of two more often
        return 1 << found.bit_length() - 1 if self.pingpong and self.laps != "any" else found

    def whole(self, stages: int) -> tuple[int, int]:
        """The steps of a tile by the first number leave the second: twice round so many stages phases are the
        same."""
        if not self.pingpong or self.laps == "any":
            return 1, 0
        return 2 * stages, stages if self.laps == "odd" else 0


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(f"schedule: {message}")


__all__ = ["Schedule"]
