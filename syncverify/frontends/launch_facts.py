"""Launch facts from a TOML file: what the kernel's text leaves to whoever launches it.

``apply`` puts them on a kernel of the IR, ``frontends.ptx.facts`` on one of PTX.

    [kernel."*"]                 # every kernel
    grid = [4, 1, 1]
    [kernel.ring]                # overrides "*" key by key
    registers = 168
    [kernel.ring.params]         # by name or by index
    N = 8
    1 = {i32 = 64}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncverify.base.kernel_names import LONGEST_NAME, base_name
from syncverify.base.source import InputError, Span, decode, read_bytes

if TYPE_CHECKING:
    from syncverify.ir.expr import Expr
    from syncverify.ir.nodes import Kernel

#: Keys of a kernel's table. ``dynamic_smem`` is a fact of PTX and CUDA inputs only.
KEYS = ("grid", "block", "cluster", "dependent", "dynamic_smem", "registers", "assume", "params", "variables")
#: Those that hold a table of their own, merged entry by entry.
_NESTED = ("params", "variables")
_TYPES = ("i32", "i64", "u32", "u64")
#: A table of a kernel's facts begins.
_HEADER = re.compile(r"""\s*\[\s*kernel\s*\.\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))""")


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """The tables of a launch file by kernel name; ``*`` holds for every kernel."""

    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    file: str = ""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> LaunchFacts:
        """Facts of the form of a launch file: one table for all kernels, or a table ``kernel`` by name.

        >>> LaunchFacts.of({"grid": [4], "params": {"N": 8}}).table("ring")
        {'grid': [4], 'params': {'N': 8}}
        """
        span = Span("the launch facts")
        data = facts if "kernel" in facts else {"kernel": {"*": dict(facts)}}
        return cls(_tables(data, span), span.file)

    def table(self, *names: str) -> dict[str, Any]:
        """The facts for one kernel: the tables of its names over the ``*`` table, key by key."""
        merged: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for name in dict.fromkeys(("*", *names)):
            own = self.tables.get(name, {})
            merged |= own
            for key in _NESTED:
                if own.get(key):
                    nested[key] = nested.get(key, {}) | own[key]
        return merged | nested

    def apply(self, kernel: Kernel) -> tuple[Kernel, dict[str, int]]:
        """The kernel as launched, and the parameter values that the file gives."""
        facts = self.table(kernel.name)
        launch = kernel.launch
        if "dynamic_smem" in facts:
            self.fail("dynamic_smem: the shared memory of a .syncir kernel follows from its buffers")
        if "variables" in facts:
            self.fail("variables: a .syncir kernel reads no variables of the host")
        if "assume" in facts:
            self.fail("assume: not supported for .syncir, whose values are exact; write it in the kernel")
        for key, own in (("block", launch.block), ("cluster", launch.cluster)):
            if key in facts and (given := self.dims(key, facts[key])) != own:
                self.fail(f"{key} = {list(given)}, but kernel {kernel.name} is written for {list(own)}")
        if "dependent" in facts and self.flag("dependent", facts["dependent"]) != launch.dependent:
            how = "dependent" if launch.dependent else "not dependent"
            self.fail(f"dependent: the launch that kernel {kernel.name} states itself is {how}")
        registers = self.positive("registers", facts["registers"]) if "registers" in facts else None
        launched = relaunch(kernel, self.grid(kernel.name), registers)
        return launched, self._params(kernel, facts.get("params", {}))

    def grid(self, name: str) -> tuple[int, int, int] | None:
        """The grid that the file gives a kernel, if it does."""
        facts = self.table(name)
        return self.dims("grid", facts["grid"]) if "grid" in facts else None

    def _params(self, kernel: Kernel, given: Mapping[str, Any]) -> dict[str, int]:
        values: dict[str, int] = {}
        for key, value in given.items():
            name = key
            if key.isdigit():
                if int(key) >= len(kernel.params):
                    self.fail(f"kernel {kernel.name} has no parameter number {key}")
                name = kernel.params[int(key)].name
            if name in values:
                self.fail(f"parameter {name} of kernel {kernel.name} is given twice")
            values[name] = self._number(f"params.{key}", value)
        return values

    def _number(self, what: str, value: object) -> int:
        if isinstance(value, dict) and len(value) == 1:
            ((kind, value),) = value.items()
            if kind not in _TYPES:
                self.fail(f"{what}: a .syncir parameter is an integer ({', '.join(_TYPES)}), not {kind!r}")
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(f"{what}: give an integer, not {value!r}")
        return int(value)

    def positive(self, what: str, value: object) -> int:
        """A number of the file that is at least 1."""
        number = self._number(what, value)
        if number < 1:
            self.fail(f"{what}: {number} is not positive")
        return number

    def flag(self, what: str, value: object) -> bool:
        """A truth value of the file."""
        if not isinstance(value, bool):
            self.fail(f"{what}: give true or false, not {value!r}")
        return value

    def dims(self, key: str, value: object) -> tuple[int, int, int]:
        """One to three numbers of the file, the others 1."""
        sizes = value if isinstance(value, list) else [value]
        if not 1 <= len(sizes) <= 3:
            self.fail(f"{key}: give one to three sizes")
        x, y, z = (self.positive(key, v) for v in [*sizes, 1, 1][:3])
        return x, y, z

    def line_of(self, given: str, *names: str) -> Span:
        """Where the file gives a string for a kernel: in a table of its ``names``, else in that of ``*``."""
        table, places = "", dict[str, int]()
        for number, line in enumerate(_lines_of(self.file), 1):
            header = _HEADER.match(line)
            if header is not None:
                table = next(filter(None, header.groups()), "")
            elif f'"{given}"' in line or f"'{given}'" in line:
                places.setdefault(table, number)
        found = next((places[n] for n in (*names, "*") if n in places), 0)
        return Span(self.file, found)

    def fail(self, message: str) -> NoReturn:
        """Raises InputError in the file's name."""
        raise InputError(message, Span(self.file))


def _lines_of(path: str) -> list[str]:
    """The lines of a launch file; none where there is no file."""
    try:
        return Path(path).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError, ValueError):
        return []


NO_FACTS = LaunchFacts()


def relaunch(kernel: Kernel, grid: tuple[int, int, int] | None, registers: int | None) -> Kernel:
    """The kernel with another grid or other registers per thread, where they are given."""
    launch = kernel.launch
    if grid is not None:
        from syncverify.ir.expr import Int  # a result from the cache needs none

        sizes: tuple[Expr, Expr, Expr] = (Int(grid[0]), Int(grid[1]), Int(grid[2]))
        launch = replace(launch, grid=sizes)
    if registers is not None:
        launch = replace(launch, registers=registers)
    return replace(kernel, launch=launch)


def default_path(path: str | Path) -> Path:
    """Where the launch facts of an input lie when no file is named: ``<input>.launch.toml``."""
    return Path(f"{path}.launch.toml")


def facts_for(path: str | Path, launch: str | None = None) -> LaunchFacts:
    """The launch facts of an input: those of ``launch``, else those beside the input, else none."""
    own = default_path(path)
    return read_facts(launch) if launch is not None else read_facts(own) if own.exists() else NO_FACTS


def read_facts(path: str | Path) -> LaunchFacts:
    """The launch facts of a TOML file; InputError names an unreadable file or an unknown key."""
    import tomllib  # where there is no launch file, nothing needs it

    span = Span(str(path))
    try:
        data = tomllib.loads(decode(read_bytes(path), str(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise InputError(f"not a TOML file: {e}", span) from e
    return LaunchFacts(_tables(data, span), str(path))


def of_no_kernel(facts: LaunchFacts, names: Collection[str]) -> Iterator[InputError]:
    """What is wrong with facts that were given for these kernels: each table that names none of them."""
    for name in facts.tables:
        if name != "*" and name not in names:
            has = ", ".join(sorted(n for n in names if len(n) <= LONGEST_NAME or base_name(n) == n))
            yield InputError(f'kernel."{name}" names no kernel (found: {has})', Span(facts.file))


def _tables(data: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """The tables of a launch file by kernel; InputError for keys that there are not."""
    _known(data, ("kernel",), "", span)
    tables = _table(data.get("kernel", {}), "kernel", span)
    for name, table in tables.items():
        where = f'kernel."{name}"'
        _known(_table(table, where, span), KEYS, where, span)
        nested = {
            key: {str(k): v for k, v in _table(table[key], f"{where}.{key}", span).items()}
            for key in _NESTED
            if key in table
        }
        tables = {**tables, name: {**table, **nested}} if nested else tables
    return tables


def _table(value: object, where: str, span: Span) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} must be a table", span)
    return value


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str, span: Span) -> None:
    for key in table:
        if key not in keys:
            close = get_close_matches(key, keys, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(keys)}"
            raise InputError(f"unknown key {key!r}{' in ' + where if where else ''}: {hint}", span)
