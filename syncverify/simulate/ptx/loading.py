"""A module and a launch, made ready: layouts of parameters and variables, compiled functions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncverify.simulate.ptx import instructions  # noqa: F401 -- fills the table of builders
from syncverify.simulate.ptx.harm import CannotExecute
from syncverify.simulate.ptx.launch import AnyMap, Buffer, Launch, Parameter, Struct, TensorMap
from syncverify.simulate.ptx.memory import FUNCTION_WINDOW, GLOBAL_WINDOW, RESERVED_SHARED, SHARED_START
from syncverify.simulate.ptx.program import Compiled, Symbols, compile_function, symbols_in
from syncverify.simulate.ptx.syntax import Function, InitialAddress, Module, Special, Variable
from syncverify.simulate.ptx.tensormaps import encode, of_launch
from syncverify.simulate.ptx.types import BITS
from syncverify.simulate.ptx.variable_bounds import Bounds

_FUNCTION_STEP = 256
#: Architectures on which wgmma and bulk copies may read what cp.async has written without a proxy fence: the
#: ISA asks for one, what ships leaves it out, and no wrong word was measured.
_SHIPS_WITHOUT_FENCE = ("sm_90",)


@dataclass(frozen=True)
class Pointer:
    """An address or a tensor map at a byte. ``buffer``: the number of what it leads to, -1 for none."""

    at: int
    buffer: int
    map: TensorMap | AnyMap | None = None

    def bytes(self, starts: list[int]) -> bytes:
        """What lies there, by where the buffers begin."""
        address = GLOBAL_WINDOW + starts[self.buffer] if self.buffer >= 0 else 0
        return struct.pack("<Q", address) if self.map is None else encode(of_launch(self.map, address))


@dataclass(frozen=True)
class Placed:
    """An address among the initial values of a variable: where it stands, of which variable, and how."""

    space: str  # global or const
    start: int  # the number of the buffer, or the byte of the variable
    target: tuple[str, int]
    how: InitialAddress


@dataclass(eq=False)
class Loaded:
    """What all executions of one launch share."""

    module: Module
    entry: Compiled
    functions: dict[str, Compiled]
    by_address: dict[int, Compiled]
    join_places: dict[str, frozenset[int]]
    static_shared: int
    bounds: Bounds
    first_shared: int  # bytes before the first shared variable, which are no part of any
    constants: np.ndarray[Any, Any]
    params: bytearray
    param_offsets: dict[str, int]
    pointers: list[Pointer]
    inside: list[tuple[int, Pointer]]  # buffer, and what lies in it
    placed: list[Placed]
    buffer_sizes: list[tuple[int, int]]
    buffer_bytes: list[np.ndarray[Any, Any]]
    buffers: list[Buffer]
    names: dict[str, int]  # global variables -> buffer
    granule: int
    local_size: int
    settles: bool
    max_registers: int
    copies_need_fence: bool  # what cp.async has written, before the async proxy reads it
    warnings: list[str] = field(default_factory=list)

    def relocated(self, starts: list[int]) -> np.ndarray[Any, Any]:
        """The parameters' bytes, pointers and maps filled in."""
        out = bytearray(self.params)
        for p in self.pointers:
            raw = p.bytes(starts)
            out[p.at : p.at + len(raw)] = raw
        return np.frombuffer(bytes(out), np.uint8)

    def registers(self, launch: Launch) -> int:
        """Registers of each thread at the launch."""
        if launch.registers:
            return launch.registers
        if self.max_registers:
            return self.max_registers
        return min(255, 65536 // (-(-launch.threads // 128) * 128) // 8 * 8)


def reached_functions(module: Module, entry: Function) -> tuple[list[Function], set[str]]:
    """The functions that a kernel may call, itself first, and all names that they use."""
    known = {f.name: f for f in module.functions if f.body}
    leads = {v.name: {a.name for a in v.initial.addresses} for _, v in _variables(module) if v.initial}
    found, named = [entry], set[str]()
    for f in found:
        own = {n for i in f.body for n in symbols_in(i.operands)}
        while more := {x for n in own for x in leads.get(n, ())} - own:
            own |= more
        own = {module.aliases.get(n, n) for n in own}
        found += [known[n] for n in sorted(own & known.keys()) if known[n] not in found]
        named |= own
    return found, named


def _align(at: int, to: int) -> int:
    return -(-at // max(to, 1)) * max(to, 1)


@dataclass(eq=False)
class _Buffers:
    """The buffers that parameters, maps and variables lead to, by number."""

    buffers: list[Buffer] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    contents: list[np.ndarray[Any, Any]] = field(default_factory=list)
    inside: list[tuple[int, Pointer]] = field(default_factory=list)  # buffer, and what lies in it

    def number_of(self, x: Buffer) -> int:
        """The number of a buffer, which is entered with all that it leads to if it is new."""
        for i, known in enumerate(self.buffers):
            if known is x:
                return i
        raw = np.ascontiguousarray(x.data).view(np.uint8).ravel()
        self.buffers.append(x)
        self.sizes.append((raw.size, x.misalign))
        self.contents.append(raw)
        number = len(self.buffers) - 1
        self.inside.extend((number, self.pointer(at, y)) for at, y in x.places.items())
        return number

    def pointer(self, at: int, x: Buffer | TensorMap | AnyMap) -> Pointer:
        """What lies at a byte and leads to ``x``."""
        match x:
            case AnyMap():
                return Pointer(at, -1, x)
            case TensorMap():
                return Pointer(at, self.number_of(x.buffer), x)
        return Pointer(at, self.number_of(x))


def load(module: Module, kernel: str, launch: Launch, seed: int = 0) -> Loaded:
    """Compiles a kernel for a launch. ValueError if the launch does not fit the kernel."""
    function = next((f for f in module.functions if f.name == kernel and f.entry and f.body), None)
    if function is None:
        raise ValueError(f"the file has no kernel {kernel}")
    _fits(function, launch)
    buffers = _Buffers()
    bounds = Bounds(launch.shared, np.random.default_rng(seed) if launch.apart else None)
    params, offsets, pointers = _parameters(function, launch, buffers.pointer, bounds)
    symbols = Symbols(bounds=bounds)
    reached, named = reached_functions(module, function)
    static = _place_shared(module, reached, named, symbols)
    for i, f in enumerate(module.functions):
        symbols.functions[f.name] = i * _FUNCTION_STEP
    constants, names = _place_variables(module, launch, buffers, symbols, named)
    placed = list(_placed(module, launch, symbols, named))
    settles = _refills_shared(module)
    functions: dict[str, Compiled] = {}
    by_address: dict[int, Compiled] = {}
    for f in reached:
        if f is function or not f.entry:
            compiled = compile_function(module, f, symbols, functions, seed, settles)
            by_address[FUNCTION_WINDOW + symbols.functions[f.name]] = compiled
    if len(functions) == 1:
        own = functions[kernel]
        sizes = [(own.locals[v.name], v.size) for v in function.variables if v.space == "local"]
        bounds.place("local", sizes, _align(own.local_size, 16))
    bodies = [functions[f.name].function for f in module.functions if f.name in functions]
    locals_size = sum(c.local_size for c in functions.values()) * (8 if len(functions) > 1 else 1)
    return Loaded(
        module=module,
        entry=functions[kernel],
        functions=functions,
        by_address=by_address,
        join_places={n: frozenset(c.joins.values()) for n, c in functions.items()},
        static_shared=static,
        bounds=bounds,
        first_shared=_first_shared(reached, symbols),
        constants=np.frombuffer(bytes(constants), np.uint8),
        params=params,
        param_offsets=offsets,
        pointers=pointers,
        inside=buffers.inside,
        placed=placed,
        buffer_sizes=buffers.sizes,
        buffer_bytes=buffers.contents,
        buffers=buffers.buffers,
        names=names,
        granule=_granule(bodies, launch),
        local_size=_align(locals_size, 16),
        settles=settles,
        copies_need_fence=not module.target.startswith(_SHIPS_WITHOUT_FENCE),
        max_registers=(function.directives.get("maxnreg") or (0,))[0],
    )


def _first_shared(reached: list[Function], symbols: Symbols) -> int:
    """The first byte that a kernel may access, counted from its variables."""
    if any(Special("%reserved_smem_offset_1") in i.operands for f in reached for i in f.body):
        return -RESERVED_SHARED
    return min((at for space, at in symbols.places.values() if space == "shared"), default=0)


def _place_shared(module: Module, reached: list[Function], named: set[str], symbols: Symbols) -> int:
    """Places the shared variables, and says how many bytes those have that have a size.

    The kernel's own come first, then those of the module and of what it calls, in the order of the text, as
    ptxas has them. Of variables that nobody names no bytes are left: what lies behind the last one is out of
    bounds. An array of dynamic memory begins behind all that, or where the one before it in the text begins,
    aligned to 16 bytes and as it asks for; this one counts even if nobody names it.
    """
    entry, *called = reached
    shared = [(f"{entry.name}/{v.name}", v) for v in entry.variables if v.space == "shared"]
    shared += [(v.name, v) for v in module.variables if v.space == "shared"]
    shared += [(f"{f.name}/{v.name}", v) for f in called for v in f.variables if v.space == "shared"]
    dynamic = [(name, v) for name, v in shared if v.extern or v.size == 0]
    sized = [(n, v.size, v.align) for n, v in shared if (n, v) not in dynamic and v.name in named]
    known, at = [], SHARED_START
    for name, start, at in symbols.bounds.spaced("shared", sized, SHARED_START):
        symbols.places[name] = ("shared", start - SHARED_START)
        known.append((start - SHARED_START, at - start))
    at = _align(at + symbols.bounds.gap("shared"), 16)
    first = None
    for name, v in dynamic if any(v.name in named for _, v in dynamic) else ():
        at = _align(at, v.align)
        if v.name in named:
            symbols.places[name] = ("shared", at - SHARED_START)
            first = at if first is None else first
    static = at - SHARED_START
    begin = static if first is None else first - SHARED_START
    end = static + symbols.bounds.dynamic
    symbols.bounds.place("shared", [*known, (begin, end - begin)], end)
    return static


def _variables(module: Module) -> Iterator[tuple[str, Variable]]:
    """All variables, with what stands before their names where they are inside a function."""
    yield from (("", v) for v in module.variables)
    for f in module.functions:
        yield from ((f"{f.name}/", v) for v in f.variables)


def _place_variables(
    module: Module, launch: Launch, buffers: _Buffers, symbols: Symbols, named: set[str]
) -> tuple[bytearray, dict[str, int]]:
    """Places global variables, each a buffer, and constants; the bytes of these, and the buffers by name."""
    constants = bytearray()
    names: dict[str, int] = {}
    known: list[tuple[int, int]] = []
    for prefix, v in _variables(module):
        data = _initial(v, launch, used=v.name in named)
        if v.space == "global":
            names[v.name] = buffers.number_of(Buffer(data))
            symbols.places[prefix + v.name] = ("global", names[v.name])
        elif v.space == "const":
            start = _align(len(constants) + symbols.bounds.gap("const"), v.align)
            constants.extend(b"\0" * (start - len(constants)))
            symbols.places[prefix + v.name] = ("const", start)
            constants.extend(data.tobytes())
            known.append((start, v.size))
    symbols.bounds.place("const", known, max(len(constants), 16) + 32)
    return constants, names


def _initial(v: Variable, launch: Launch, *, used: bool) -> np.ndarray[Any, Any]:
    """A variable's bytes at launch: those that the launch gives over those of the text, zeros else."""
    data = np.zeros(v.size, np.uint8)
    given = launch.variables.get(v.name)
    if v.initial is not None and v.initial.data is not None:
        data[: len(v.initial.data)] = np.frombuffer(v.initial.data, np.uint8)
    elif v.initial is not None and used and given is None:
        raise CannotExecute(v.line, v.name, "initial values that are not known")
    if given is not None:
        raw = np.ascontiguousarray(given).view(np.uint8).ravel()
        data[: raw.size] = raw
    return data


def _placed(module: Module, launch: Launch, symbols: Symbols, named: set[str]) -> Iterator[Placed]:
    """The addresses among initial values, but of variables that the launch gives."""
    for prefix, v in _variables(module):
        if v.initial is None or v.name in launch.variables:
            continue
        for how in v.initial.addresses:
            name = module.aliases.get(how.name, how.name)
            target = next((symbols.places[n] for n in (prefix + name, name) if n in symbols.places), None)
            if target is None and name in symbols.functions:
                target = "function", symbols.functions[name]
            if target is not None:
                yield Placed(*symbols.places[prefix + v.name], target, how)
            elif v.name in named:
                raise CannotExecute(v.line, v.name, f"the address of {name} as an initial value")


def _refills_shared(module: Module) -> bool:
    """Whether bulk copies write shared memory: these ask whether earlier loads have arrived."""
    return any(
        i.op == "cp"
        and "bulk" in i.mods
        and any(w.startswith("shared") for w in i.mods[:4])
        and "prefetch" not in i.mods
        for f in module.functions
        for i in f.body
    )


def _fits(function: Function, launch: Launch) -> None:
    required = function.directives.get("reqntid")
    if required and tuple(required) + (1,) * (3 - len(required)) != launch.block:
        raise ValueError(f"{function.name} requires a block of {required}, not {launch.block}")
    most = function.directives.get("maxntid")
    if most and launch.threads > int(np.prod(most)):
        raise ValueError(f"{function.name} allows a block of at most {most}")
    cluster = function.directives.get("reqnctapercluster")
    if cluster and tuple(cluster) + (1,) * (3 - len(cluster)) != launch.cluster:
        raise ValueError(f"{function.name} requires a cluster of {cluster}, not {launch.cluster}")
    for n, c in zip(launch.grid, launch.cluster, strict=True):
        if n % c:
            raise ValueError(f"a grid of {launch.grid} is no multiple of the cluster {launch.cluster}")
    if len(launch.params) != len(function.params):
        raise ValueError(
            f"{function.name} has {len(function.params)} parameters, {len(launch.params)} are given"
        )


def _parameters(
    function: Function,
    launch: Launch,
    pointer_of: Callable[[int, Buffer | TensorMap | AnyMap], Pointer],
    bounds: Bounds,
) -> tuple[bytearray, dict[str, int], list[Pointer]]:
    out = bytearray()
    offsets: dict[str, int] = {}
    pointers: list[Pointer] = []
    for v, value in zip(function.params, launch.params, strict=True):
        element = BITS.get(v.type, 8) // 8
        before = len(out) + (bounds.gap("param") if out else 0)
        at = _align(before, v.align if v.ptr is None else max(element, 1))
        out.extend(b"\0" * (at - len(out)))
        offsets[v.name] = at
        if isinstance(value, Buffer | TensorMap | AnyMap):
            pointers.append(pointer_of(at, value))
            out.extend(b"\0" * v.size)
        elif isinstance(value, Struct):
            pointers += [pointer_of(at + inner, x) for inner, x in value.places.items()]
            out.extend(_plain(v, value.data))
        else:
            out.extend(_plain(v, value))
    bounds.place("param", [(offsets[v.name], v.size) for v in function.params], max(len(out), 16) + 48)
    return out, offsets, pointers


def _plain(v: Variable, value: Parameter) -> bytes:
    match value:
        case bytes():
            if len(value) > v.size:
                raise ValueError(f"parameter {v.name} has {v.size} bytes, {len(value)} are given")
            return value.ljust(v.size, b"\0")
        case float():
            form = {"f32": "<f", "f64": "<d", "b32": "<f", "b64": "<d"}.get(v.type)
            if form is None:
                raise ValueError(f"parameter {v.name} is of type {v.type}, a float is given")
            return struct.pack(form, value)
        case int():
            return (value & ((1 << (8 * v.size)) - 1)).to_bytes(v.size, "little")
    raise ValueError(f"parameter {v.name}: {value!r} is no parameter")


def _granule(bodies: list[Function], launch: Launch) -> int:
    """The smallest access that the text makes to shared or global memory, in bytes, at most 4."""
    least = 4
    for body in bodies:
        for i in body.body:
            if i.op in ("ld", "st", "atom", "red", "ldu"):
                if "param" in i.mods or "local" in i.mods:
                    continue
                kinds = [m for m in i.mods if m in BITS]
                if not kinds:
                    raise CannotExecute(i.line, i.name, "an access without a type")
                least = min(least, max(BITS[kinds[-1]] // 8, 1))
            elif i.op in ("stmatrix", "ldmatrix") and "trans" in i.mods:
                least = min(least, 2)
    for x in launch.params:
        if isinstance(x, TensorMap):
            least = min(least, {"u8": 1}.get(x.dtype, 2 if x.dtype in ("u16", "f16", "bf16") else 4))
    return least
