"""Names of a fusion's tensors and dimensions, and what kernels call them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import networkx as nx

from syncverify.base.source import InputError, Span
from syncverify.codegen.names import declared
from syncverify.fusion.traced import INDEX_DTYPES, Tensor
from syncverify.ir.expr import BUILTINS
from syncverify.ir.text.forms import RESERVED as TEXT_RESERVED

#: Element types of numbers that a fusion may load and store; their arithmetic is in f32.
FLOATS = ("f32", "bf16", "f16", "e4m3", "e5m2")
#: Element types that a fusion may store.
DTYPES = (*FLOATS, "i32", "bool")
#: Names that the lowering uses itself.
RESERVED = (
    frozenset(
        """
        i j k n p q base each more rest blocks row own_row elected chunks columns strips tiles_m tiles_n x_ y_
        first_ own_ at_
        column_ which_ strip_ base_ below_ low_ tile_ matrix_ inside_ top_ left_ row_ member_
        """.split()
    )
    | BUILTINS
    | declared()
    | TEXT_RESERVED
)
#: Registers of the lowering are one letter or two and a number; barriers and exchanges have words for it.
_REGISTER = re.compile(r"([a-z]{1,2}|full|empty|parts?|results)\d+(_\w+)?")


def good(name: str) -> bool:
    """Whether a dimension may have a name: it is that of a kernel's parameter."""
    return _word(name) and name not in RESERVED


def kernel_names(names: Collection[str], behind: str, others: Collection[str] = ()) -> dict[str, str]:
    """What kernels call tensors: their names, with ``behind`` where the lowering uses the name itself."""
    found: dict[str, str] = {}
    for name in names:
        inner = f"{name}{behind}" if name in RESERVED or _REGISTER.fullmatch(name) else name
        while inner in found.values() or inner in others or (inner != name and inner in names):
            inner += "_"
        found[name] = inner
    return found


def check_tensor(fusion: str, n: str, t: Tensor, span: Span) -> None:
    """Raises InputError for types and names that an input cannot have."""
    if not hasattr(t, "dtype") or not hasattr(t, "dims"):
        raise InputError(f"fusion {fusion}: {n} is {t!r}: declare it as Tensor(dtype, dims)", span)
    if not isinstance(t.dims, tuple) or not all(isinstance(x, str) for x in t.dims):
        raise InputError(
            f"fusion {fusion}: {n} has dimensions {t.dims!r}; give names in a tuple, as ('R', 'C')", span
        )
    if t.dtype not in (*DTYPES, *INDEX_DTYPES):
        known = ", ".join(dict.fromkeys((*DTYPES, *INDEX_DTYPES)))
        raise InputError(f"fusion {fusion}: {n} has type {t.dtype}; use one of {known}", span)
    check_name(fusion, n, "an input", span)
    for x in t.dims:
        if not good(x):
            raise InputError(
                f"fusion {fusion}: {x!r} cannot be used as a name of a dimension: kernels use it themselves",
                span,
            )
    if len(set(t.dims)) != len(t.dims):
        raise InputError(f"fusion {fusion}: {n} names a dimension twice", span)


def check_name(fusion: str, name: str, what: str, span: Span) -> None:
    if not isinstance(name, str) or not _word(name):
        raise InputError(f"fusion {fusion}: {what} cannot be called {name!r}", span)


def full_dims(
    fusion: str, inputs: Mapping[str, Tensor], span: Span, wanted: Sequence[str] = ()
) -> tuple[str, ...]:
    """All dimensions in one order that agrees with every input, and with ``wanted``."""
    order: nx.DiGraph = nx.DiGraph()
    has = {d for t in inputs.values() for d in t.dims}
    order.add_edges_from(pairwise(d for d in wanted if d in has))
    for t in inputs.values():
        order.add_nodes_from(t.dims)
        order.add_edges_from(zip(t.dims, t.dims[1:], strict=False))
    first = {d: i for i, d in enumerate(dict.fromkeys(d for t in inputs.values() for d in t.dims))}
    if not first:
        raise InputError(f"fusion {fusion}: every input is a scalar; give one a dimension", span)
    clash = first.keys() & inputs.keys()
    if clash:
        raise InputError(
            f"fusion {fusion}: {', '.join(sorted(clash))} names both an input and a dimension", span
        )
    try:
        return tuple(nx.lexicographical_topological_sort(order, key=lambda d: first[d]))
    except nx.NetworkXUnfeasible:
        raise InputError(
            f"fusion {fusion}: inputs order their dimensions differently; no input is read transposed: "
            "declare them in one order, and transpose() the result",
            span,
        ) from None


def _word(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


__all__ = ["DTYPES", "FLOATS", "RESERVED", "check_name", "check_tensor", "full_dims", "good", "kernel_names"]
