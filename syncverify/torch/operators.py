"""Regions as operators of torch: Inductor compiles a graph around them, and plans memory and CUDA graphs.

An operator has one name for one computation, one layout of its arguments and one runner, so that equal
regions share it and Inductor's cache of graphs finds it again in another process. There a program may ask for
an operator that this process has not made. ``makers`` are asked for it then (``kept.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload, _OpNamespace
from torch.fx import Node
from torch.fx.node import map_arg

from syncverify.base.cache_dir import digest
from syncverify.torch.call import Fused
from syncverify.torch.dims import UnfitError
from syncverify.torch.runners import Runner

_NAMESPACE = "syncverify"
#: Characters of a name: of what it computes, and of the digest that tells such apart.
_WORDS, _DIGEST = 40, 16
#: How programs call operators. It is part of names, because Inductor keeps programs on disk.
_CALLS = "direct, by the operator"
_LIBRARY = torch.library.Library(_NAMESPACE, "FRAGMENT")
#: By name: the runner that an operator was made for, what runs it, and the operator.
_MADE: dict[str, tuple[Runner, Fused, OpOverload]] = {}
#: The names of these, and of one that is being made.
_BEGUN: set[str] = set()
#: One thread at a time registers an operator.
_LOCK = threading.RLock()
#: What makes an operator that a program asks for by its name, where it can.
makers: list[Callable[[str], None]] = []


class _Operators(_OpNamespace):  # type: ignore[misc]
    """``torch.ops.syncverify``, where operators are made when they are asked for."""

    # packets say where they are from by this, as torch's own do
    __module__ = _OpNamespace.__module__

    def __getattr__(self, op_name: str) -> Any:
        if not op_name.startswith("_"):
            for make_one in makers:
                make_one(op_name)
        return vars(self).get(op_name) or super().__getattr__(op_name)


def _takes_over() -> None:
    """Puts it in the place of torch's own namespace, with what that has."""
    namespace = _Operators(_NAMESPACE)
    for name, found in vars(getattr(torch.ops, _NAMESPACE)).items():
        setattr(namespace, name, found)
    setattr(torch.ops, _NAMESPACE, namespace)


_takes_over()


def identity(
    nodes: Iterable[Node], arguments: Sequence[Node], outputs: Sequence[Node], runner: Runner
) -> str:
    """A digest of a region's nodes and results, and of its arguments' shapes, strides, types and devices."""
    own = list(nodes)
    places = {n: k for k, n in enumerate((*arguments, *own))}
    lines = [
        f"{n.op} {n.target} {map_arg(n.args, lambda a: f'%{places[a]}')} "
        f"{map_arg(n.kwargs, lambda a: f'%{places[a]}')}"
        for n in own
    ]
    lines.append(f"output {[places[n] for n in outputs]}")
    given = [_described(n.meta.get("val")) for n in arguments]
    kind = f"{runner.name} {getattr(runner, 'policy', '')}"
    return digest("\n".join([_CALLS, kind, *given, *lines]))[:_DIGEST]


def _described(x: Any) -> str:
    if not isinstance(x, torch.Tensor):
        return str(x)
    return f"{x.dtype} {x.device} {tuple(map(str, x.shape))} {tuple(map(str, x.stride()))}"


def known(name: str, runner: Runner) -> OpOverload | None:
    """The operator of that name, if it was made for this runner."""
    found = _MADE.get(name)
    return found[2] if found is not None and found[0] is runner else None


def name_of(words: str, identity: str, runner: Runner) -> str:
    """A name that no other computation, and no other runner, has."""
    base = f"{words[:_WORDS].rstrip('_')}_{identity}"
    name, count = base, 1
    while name in _MADE and _MADE[name][0] is not runner:
        count += 1
        name = f"{base}_{count}"
    return name


def fused_of(name: str) -> Fused:
    """What runs an operator."""
    return _MADE[name][1]


def make(name: str, fused: Fused, kinds: Sequence[str], runner: Runner) -> OpOverload:
    """Registers the operator, for arguments of such ``kinds``; it changes none, and its results are new.

    A backward pass is compiled when it first runs, beside what another thread compiles.
    """
    with _LOCK:
        return known(name, runner) or _registered(name, fused, kinds, runner)


def _registered(name: str, fused: Fused, kinds: Sequence[str], runner: Runner) -> OpOverload:
    _BEGUN.add(name)
    takes = ", ".join(f"{kind} x{k}" for k, kind in enumerate(kinds))
    gives = "Tensor" if fused.count == 1 else f"({', '.join(['Tensor'] * fused.count)})"
    _LIBRARY.define(
        f"{name}({takes}) -> {gives}", tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)
    )
    _LIBRARY.impl(name, fused.__call__, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{name}", fused.fake, lib=_LIBRARY)
    packet = getattr(torch.ops.syncverify, name)
    op: OpOverload = packet.default
    _MADE[name] = (runner, fused, op)
    packet.into = fused.into
    _call_directly(name, fused, op)
    return op


def _call_directly(name: str, fused: Fused, op: OpOverload) -> None:
    """Lets Inductor's program call what runs an operator with one result, and plan its memory.

    Else the call goes through torch's dispatcher, which takes the host longer than a launch.
    """
    result = fused.result
    if result is None:
        return
    from torch._inductor import config, ir, lowering

    called = f"torch.ops.{_NAMESPACE}.{name}.into"
    try:
        through_dispatcher = lowering.fallback_handler(op, add_to_fallback_set=False)
    except (AttributeError, TypeError):
        return  # another version of torch: its programs call the operator
    shape, strides, dtype = result

    def lowered(*arguments: Any) -> Any:
        if config.cpp_wrapper:
            return through_dispatcher(*arguments)
        inputs = [ir.ExternKernel.realize_input(x) for x in arguments]
        layout = ir.FixedLayout(inputs[0].get_device(), dtype, shape, strides)
        return ir.TensorBox.create(
            ir.ExternKernelOut(layout, inputs, python_kernel_name=called, op_overload=op)
        )

    lowering.register_lowering(op, type_promotion_kind=None)(lowered)


def begun(name: str) -> bool:
    """Whether there is an operator of that name in this process, or will be at once."""
    return name in _BEGUN


def kinds_of(arguments: Sequence[Node]) -> list[str]:
    """The types of arguments; raises UnfitError for one that no operator takes."""
    return [_kind(argument) for argument in arguments]


def _kind(argument: Node) -> str:
    x = argument.meta.get("val")
    if isinstance(x, torch.Tensor):
        return "Tensor"
    if isinstance(x, (torch.SymInt, int)) and not isinstance(x, bool):
        return "SymInt"
    raise UnfitError("an argument that no operator takes")


__all__ = ["begun", "fused_of", "identity", "kinds_of", "known", "make", "makers", "name_of"]
