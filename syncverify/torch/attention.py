"""Calls of attention as torch's own kernels take them best: without masks that are known, or repeated heads.

A model may build a mask from numbers of places alone. Torch then reads it for every pair of places, and
cannot use its kernels for causal attention. Example: ``arange(n)[None, :] <= arange(n)[:, None]``.

A model may also repeat each head of its keys for a group of queries' heads, where torch's kernels could read
the one. What such a call computes stays the same.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from syncverify.torch.choice import SlowerError, real
from syncverify.torch.dims import extent
from syncverify.torch.places import causal

log = logging.getLogger("syncverify.torch")

#: What the mask of an attention says.
NOTHING, CAUSAL = "nothing is masked", "causal"
#: Functions and methods that masks are built with: they depend on their arguments alone, and change none.
_FUNCTIONS = {
    torch.arange, torch.ones, torch.zeros, torch.full, torch.tril, torch.triu, torch.where,
    torch.logical_and, torch.logical_or, torch.logical_not, torch.le, torch.lt, torch.ge, torch.gt, torch.eq,
    torch.ne, torch.add, torch.sub, torch.mul, torch.abs, torch.unsqueeze, torch.broadcast_to, operator.add,
    operator.sub, operator.mul, operator.neg, operator.le, operator.lt, operator.ge, operator.gt,
    operator.eq, operator.ne,
    operator.and_, operator.or_, operator.invert, operator.floordiv, operator.getitem,
}  # fmt: skip
_METHODS = {
    "expand", "to", "bool", "int", "long", "float", "view", "reshape", "unsqueeze", "squeeze", "transpose",
    "permute", "contiguous", "tril", "triu", "new_ones", "new_zeros", "new_full", "logical_and", "logical_or",
    "logical_not", "masked_fill", "le", "lt", "ge", "gt", "eq", "ne", "add", "sub", "mul", "type", "repeat",
}  # fmt: skip
_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
#: Elements of a mask up to which it is made, to see what it says.
_MOST = 1 << 30


#: What gives a tensor another shape; numbers, for which nothing is computed that tensors see.
_SHAPES = (
    "reshape", "view", "flatten", "contiguous", "expand", "broadcast_to", "unsqueeze", "getitem", "transpose",
    "permute",
)  # fmt: skip
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)

#: Types, and the largest head, of which torch's kernels read one head of keys for several of queries.
_GROUPED_TYPES, _LARGEST_HEAD = (torch.bfloat16, torch.float16), 256


@dataclass(frozen=True)
class Mended:
    """An attention that is called otherwise: what its mask said, and how many heads read copies of one."""

    name: str
    said: str = ""
    repeated: int = 1


def mend(module: GraphModule) -> list[Mended]:
    """Calls the attentions of a graph of torch's functions without known masks and without repeated heads."""
    found: list[Mended] = []
    known: dict[Node, str] = {}
    unused: list[Node] = []
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is not _ATTENTION:
            continue
        arguments = dict(zip(_PARAMETERS, node.args, strict=False)) | dict(node.kwargs)
        said = _mask_said(arguments, known)
        if said:
            del arguments["attn_mask"]
            arguments["is_causal"] = said == CAUSAL
        count = _repeated(arguments, node)
        if count > 1:
            arguments |= {name: _heads(arguments[name]) for name in ("key", "value")}
            arguments["enable_gqa"] = True
        if said or count > 1:
            before = node.all_input_nodes
            node.args = tuple(arguments.pop(name) for name in _PARAMETERS[:3])
            node.kwargs = arguments
            unused += before
            found.append(Mended(node.name, said, count))
    if found:
        _erase(unused)
        module.recompile()
        log.info("attentions that are called otherwise: %s", found)
    return found


def _erase(nodes: Sequence[Node]) -> None:
    """Erases what nobody reads any more of some nodes and of what they were made of.

    The graph is not functional yet: a node that nobody reads may be there for what it writes.
    """
    pending, erased = list(nodes), set[Node]()
    while pending:
        node = pending.pop()
        if node.users or node in erased or not (_pure(node) or _looks(node)):
            continue
        pending += node.all_input_nodes
        node.graph.erase_node(node)
        erased.add(node)


# ---------------------------------------------------------------- repeated heads


def _repeated(arguments: Mapping[str, Any], attention: Node) -> int:
    """How many heads read copies of one head of keys, and of values, that kernels can read instead."""
    if arguments.get("attn_mask") is not None or arguments.get("enable_gqa", False):
        return 1
    key, value = (arguments[name] for name in ("key", "value"))
    plain = [_heads(x) for x in (key, value)]
    if any(x is None for x in plain):
        return 1
    if any(_may_be_written(x, attention) for x in plain):
        return 1
    before = [_value(x).shape[1] for x in plain]
    after = [_value(x).shape[1] for x in (arguments["query"], key, value)]
    if not all(isinstance(n, int) for n in (*before, *after)) or len({*after}) > 1 or len({*before}) > 1:
        return 1
    return after[0] // before[0] if grouped(_value(plain[0])) else 1


def grouped(key: torch.Tensor) -> bool:
    """Whether torch has kernels that read one head of keys for several of queries, for such keys."""
    size = key.shape[-1]
    fits = isinstance(size, int) and size % 8 == 0 and size <= _LARGEST_HEAD
    return fits and key.device.type == "cuda" and key.dtype in _GROUPED_TYPES


def _heads(x: Any) -> Node | None:
    """What a tensor repeats the heads of: ``x[:, :, None].expand(b, h, n, s, d).reshape(b, h * n, s, d)``."""
    expanded = _argument(x, ("reshape", "view", "flatten", "contiguous"))
    apart = _argument(expanded, ("expand", "broadcast_to"))
    plain = _argument(apart, ("unsqueeze", "getitem"))
    if plain is None or apart is None or not _after_heads(apart):
        return None
    shapes = [[extent(n) for n in _value(one).shape] for one in (plain, apart, expanded, x)]
    if [len(shape) for shape in shapes] != [4, 5, 5, 4]:
        return None
    (b, h, s, d), n = shapes[0], shapes[2][2]
    wanted = [[b, h, 1, s, d], [b, h, n, s, d], [b, h * n, s, d]]
    return plain if shapes[1:] == wanted else None


def _may_be_written(x: Node, attention: Node) -> bool:
    """Whether anything may write to a tensor between its first reader, which may copy it, and an attention.

    What is not known to write nothing may write.
    """
    readers = set(x.users)
    between = False
    for node in x.graph.nodes:
        if node is attention:
            return False
        between = between or node in readers
        if between and not (_pure(node) or _looks(node) or isinstance(_value(node), _NUMBERS)):
            return True
    return True


def _looks(node: Node) -> bool:
    """Whether a node is its first argument's elements, in another shape or in a copy."""
    return _argument(node, _SHAPES) is not None


def _argument(x: Any, names: tuple[str, ...]) -> Node | None:
    """The tensor that a function or method of one of these names is called with."""
    if not isinstance(x, Node) or x.op not in ("call_function", "call_method") or not x.args:
        return None
    name = x.target if isinstance(x.target, str) else getattr(x.target, "__name__", "")
    first = x.args[0]
    known = isinstance(first, Node) and isinstance(_value(first), torch.Tensor)
    return first if name in names and known and isinstance(_value(x), torch.Tensor) else None


def _after_heads(node: Node) -> bool:
    """Whether a node puts one new axis behind the second."""
    at = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if not isinstance(at, tuple):
        return at in (2, -3)
    return at[:3] == (slice(None), slice(None), None) and all(one in (slice(None), ...) for one in at[3:])


# ---------------------------------------------------------------- masks


def _mask_said(arguments: Mapping[str, Any], known: dict[Node, str]) -> str:
    """What the mask of a call says; an empty text where there is none, or that is not known."""
    mask = arguments.get("attn_mask")
    if not isinstance(mask, Node) or arguments.get("is_causal", False):
        return ""
    if mask not in known:
        known[mask] = _said(mask, arguments) or ""
    return known[mask]


def _said(mask: Node, arguments: Mapping[str, Any]) -> str | None:
    """What a mask says of the places of queries and keys, None where that is not known."""
    query, key = (_value(arguments[name]) for name in ("query", "key"))
    shape = _value(mask)
    if not all(isinstance(x, torch.Tensor) for x in (query, key, shape)) or not _fits(shape, query):
        return None
    if not all(isinstance(n, int) for x in (query, key, shape) for n in x.shape):
        return _said_of_symbols(mask, query, key)
    made_of = _constant(mask)
    if made_of is None or max(_elements(n) for n in made_of) > _MOST:
        return None
    try:
        made = _made(made_of)
    except SlowerError as e:
        log.info("a mask that could not be made: %s", e)
        return None
    with real(made.device):
        return says(made, query.shape[-2], key.shape[-2])


def _fits(mask: torch.Tensor, query: torch.Tensor) -> bool:
    """Whether a mask makes no result larger: its axes of sequences and heads are 1, or the queries' own."""
    own, of_queries = ([extent(n) for n in x.shape[:-2]] for x in (mask, query))
    aligned = of_queries[len(of_queries) - len(own) :]
    return len(own) <= len(of_queries) and all(n in (1, m) for n, m in zip(own, aligned, strict=True))


def _said_of_symbols(mask: Node, query: torch.Tensor, key: torch.Tensor) -> str | None:
    """The same where sizes are symbols, for which no mask can be made."""
    found = causal(mask)
    if found is None or not all(map(_pure, found[1])) or not _only_read(found[1]):
        return None
    if not found[0]:
        return NOTHING
    return CAUSAL if extent(query.shape[-2]) == extent(key.shape[-2]) else None


def says(mask: torch.Tensor, queries: int, keys: int) -> str | None:
    """What a mask says: of booleans, where False masks, or of what is added, where the least number masks."""
    for d in range(mask.dim() - 2):
        if mask.stride(d) == 0:
            mask = mask.narrow(d, 0, 1)
    if mask.dtype is not torch.bool:
        if not mask.dtype.is_floating_point:
            return None
        masked = mask <= torch.finfo(mask.dtype).min
        if not bool((masked | (mask == 0)).all()):
            return None
        mask = ~masked
    if bool(mask.all()):
        return NOTHING
    if queries != keys or mask.dim() < 2 or tuple(mask.shape[-2:]) != (queries, keys):
        return None
    places = torch.arange(queries, device=mask.device)
    return CAUSAL if bool((mask == (places <= places.unsqueeze(1))).all()) else None


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, Node) else node


def _elements(node: Node) -> int:
    x = _value(node)
    own = (
        [n for n, step in zip(x.shape, x.stride(), strict=True) if step]
        if isinstance(x, torch.Tensor)
        else []
    )
    return int(torch.Size(own).numel())


def _constant(node: Node) -> list[Node] | None:
    """The nodes that a tensor is made of, in order; None if any depends on an input, or may be changed."""
    inside: dict[Node, None] = {}
    pending = [node]
    while pending:
        one = pending.pop()
        if one in inside:
            continue
        if not _pure(one):
            return None
        inside[one] = None
        pending += one.all_input_nodes
    return [n for n in node.graph.nodes if n in inside] if _only_read(inside) else None


def _pure(node: Node) -> bool:
    if "out" in node.kwargs:
        return False
    if node.op == "call_function":
        return node.target in _FUNCTIONS
    return node.op == "call_method" and node.target in _METHODS


def _only_read(nodes: Iterable[Node]) -> bool:
    """Whether all that reads tensors, or what may be a view of them, is known to change none."""
    seen: set[Node] = set()
    pending = [user for node in nodes for user in node.users]
    while pending:
        one = pending.pop()
        if one in seen or one.op == "output" or one.target is _ATTENTION:
            continue
        if not _pure(one):
            return False
        seen.add(one)
        pending += one.users
    return True


def _made(nodes: list[Node]) -> torch.Tensor:
    """The tensor that the last of some nodes is; SlowerError where it cannot be made."""
    made: dict[Node, Any] = {}
    with real(_value(nodes[-1]).device):
        for node in nodes:
            args, kwargs = (map_arg(given, made.__getitem__) for given in (node.args, node.kwargs))
            if node.op == "call_method":
                made[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                made[node] = node.target(*args, **kwargs)
    result: torch.Tensor = made[nodes[-1]]
    return result


__all__ = ["CAUSAL", "NOTHING", "Mended", "grouped", "mend", "says"]
