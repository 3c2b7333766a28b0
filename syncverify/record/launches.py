"""What is known of a launch, in plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Dims = tuple[int, int, int]
#: Bytes of a tensor map.
MAP_BYTES = 128


@dataclass(frozen=True, slots=True)
class TensorMap:
    """What a tensor map was encoded with. ``box``: elements that a copy moves, innermost first. ``swizzle``:
    as launch files write it. ``unsaid``: what it holds that they have no word for; empty if nothing."""

    dtype: str
    box: tuple[int, ...]
    swizzle: str
    unsaid: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """Code that was loaded: PTX text, or a cubin."""

    data: bytes

    @property
    def ptx(self) -> str | None:
        """The text, if it is PTX."""
        return None if self.data.startswith(b"\x7fELF") else self.data.rstrip(b"\0").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch. ``params``: the bytes of each parameter; ``pointers``: the values among them, at multiples
    of 8 bytes, that are addresses on the device; ``cluster``: () where it is not known;
    ``registers``: per thread at entry, 0 if not known; ``image``: number of the loaded code, -1 if not known.
    """

    kernel: str
    grid: Dims
    block: Dims
    dynamic_smem: int
    params: tuple[bytes, ...]
    pointers: frozenset[int] = frozenset()
    cluster: tuple[int, ...] = ()
    registers: int = 0
    image: int = -1


@dataclass(slots=True)
class Journal:
    """Launches, each once, with how often it came; the code they ran; tensor maps by their bytes; and kernels
    whose launches could not be read, with the reason."""

    launches: dict[Launch, int] = field(default_factory=dict)
    images: list[Image] = field(default_factory=list)
    maps: dict[bytes, TensorMap] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    def add(self, launch: Launch) -> None:
        self.launches[launch] = self.launches.get(launch, 0) + 1

    def by_kernel(self) -> Mapping[tuple[str, int], list[Launch]]:
        """Launches by the name of the kernel and the code it is in, in the order in which they first came."""
        found: dict[tuple[str, int], list[Launch]] = {}
        for launch in self.launches:
            found.setdefault((launch.kernel, launch.image), []).append(launch)
        return found
