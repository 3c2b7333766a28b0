"""Launch files: a launch on record as ``check`` reads it (docs/cli.md, launch facts)."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping

from syncverify.frontends.ptx.syntax.nodes import Function, Variable
from syncverify.record.launches import MAP_BYTES, Launch, TensorMap
from syncverify.record.listen import words

#: Types of parameters that are numbers, as ``struct`` unpacks them; others are shown by their bytes.
INTEGERS = {
    "u8": "<B", "s8": "<b", "u16": "<H", "s16": "<h", "u32": "<I", "s32": "<i", "u64": "<Q", "s64": "<q",
    "b8": "<B", "b16": "<H", "b32": "<I", "b64": "<Q",
}  # fmt: skip
FLOATS = {"f32": "<f", "f64": "<d"}
#: What pointers are aligned to if launch files do not say it.
USUAL_ALIGN = 16


def launch_file(launch: Launch, entry: Function, maps: dict[bytes, TensorMap]) -> str:
    """The text of a launch file; ``entry``: the kernel in its PTX."""
    lines = [
        f"[kernel.{json.dumps(entry.name)}]",
        f"grid = {list(launch.grid)}",
        f"block = {list(launch.block)}",
    ]
    if launch.cluster:
        lines.append(f"cluster = {list(launch.cluster)}")
    lines.append(f"dynamic_smem = {launch.dynamic_smem}")
    if launch.registers:
        lines.append(f"registers = {launch.registers}")
    lines.append(f"[kernel.{json.dumps(entry.name)}.params]")
    names = Names(launch, maps)
    for i, (value, param) in enumerate(zip(launch.params, entry.params, strict=True)):
        lines += names.param(i, value, param)
    return "\n".join(lines) + "\n"


def opened(texts: Mapping[str, int]) -> dict[str, int]:
    """Launch files of one kernel, with how many launches each represents, as few that leave out what differs:
    the grid, and parameters that are numbers. Those that differ in more stay apart."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for text in texts:
        alike.setdefault(tuple(x for x in text.splitlines() if not _is_size(x)), []).append(text)
    found: dict[str, int] = {}
    for some in alike.values():
        common = set.intersection(*(set(text.splitlines()) for text in some))
        lines = [x for x in some[0].splitlines() if x in common]
        found["\n".join(lines) + "\n"] = sum(texts[text] for text in some)
    return found


def _is_size(line: str) -> bool:
    """Whether a line gives the grid, or a number for a parameter."""
    key, _, value = line.partition(" = ")
    return key == "grid" or (key.isdecimal() and value[:1] not in ("{", "["))


class Names:
    """Names for what parameters point to: one for each address, and for each tensor map."""

    def __init__(self, launch: Launch, maps: dict[bytes, TensorMap]) -> None:
        self.pointers = launch.pointers
        self.maps = maps
        self.given: dict[int | bytes, str] = {}

    def name(self, what: int | bytes, i: int, at: int) -> str:
        """The name of an address or map, after the parameter in which it stands first."""
        return self.given.setdefault(what, f"p{i}" if not at else f"p{i}_{at}")

    def param(self, i: int, value: bytes, param: Variable) -> Iterator[str]:
        """The lines for one parameter."""
        fields = list(self.fields(i, value))
        if len(fields) == 1 and fields[0][0] == 0 and (len(value) == fields[0][1]):
            yield f"{i} = {fields[0][2]}"
        elif fields or param.type == "b8" or param.type not in {**INTEGERS, **FLOATS}:
            yield f"{i} = [{', '.join(self.filled(fields, value))}]"
        else:
            yield f"{i} = {_number(value, param.type)}"

    def fields(self, i: int, value: bytes) -> Iterator[tuple[int, int, str]]:
        """Place, size and text of what a parameter holds of tensor maps and pointers."""
        at = 0
        while at + 8 <= len(value):
            found = self.maps.get(value[at : at + MAP_BYTES])
            word = struct.unpack_from("<Q", value, at)[0]
            if found is not None:
                yield at, MAP_BYTES, _map(self.name(value[at : at + MAP_BYTES], i, at), found)
                at += MAP_BYTES
                continue
            if word in self.pointers:
                align = word & -word
                said = f", align = {align}" if align < USUAL_ALIGN else ""
                yield at, 8, f'{{ptr = "{self.name(word, i, at)}"{said}}}'
            at += 8

    def filled(self, fields: list[tuple[int, int, str]], value: bytes) -> Iterator[str]:
        """Fields with their places, and the bytes between them."""
        end = 0
        for at, size, text in [*fields, (len(value), 0, "")]:
            if at > end:
                yield f'{{bytes = "{value[end:at].hex()}", at = {end}}}'
            if text:
                yield f"{text[:-1]}, at = {at}}}"
            end = at + size


def _map(name: str, m: TensorMap) -> str:
    if m.unsaid:
        return f'{{tensormap = "{name}"}}'
    return f'{{tensormap = "{name}", dtype = "{m.dtype}", box = {list(m.box)}, swizzle = "{m.swizzle}"}}'


def _number(value: bytes, type_: str) -> str:
    if type_ in INTEGERS:
        return str(struct.unpack(INTEGERS[type_], value)[0])
    number = struct.unpack(FLOATS[type_], value)[0]
    return repr(number) if math.isfinite(number) else f'{{bytes = "{value.hex()}"}}'


__all__ = ["launch_file", "opened", "words"]
