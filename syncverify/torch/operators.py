"""Regions as operators of torch: Inductor compiles a graph around them, and plans memory and CUDA graphs.

An operator has one name for one computation, one layout of its arguments and one runner, so that equal
regions share it and Inductor's cache of graphs finds it again in another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from syncverify.base.cache_dir import digest
from syncverify.torch.call import Fused
from syncverify.torch.dims import UnfitError
from syncverify.torch.runners import Runner

_NAMESPACE = "syncverify"
#: Characters of a name: of what it computes, and of the digest that tells such apart.
_WORDS, _DIGEST = 40, 16
#: How programs call operators. It is part of names, because Inductor keeps programs on disk.
_CALLS = "direct"
_LIBRARY = torch.library.Library(_NAMESPACE, "FRAGMENT")
#: By name: the runner that an operator was made for, what runs it, and the operator.
_MADE: dict[str, tuple[Runner, Fused, OpOverload]] = {}


def identity(graph: Graph, arguments: Sequence[Node], runner: Runner) -> str:
    """A digest of a region's graph and of its arguments' shapes, strides, types and devices."""
    places = {n: k for k, n in enumerate(graph.nodes)}
    lines = [
        f"{n.op} {n.target} {map_arg(n.args, lambda a: f'%{places[a]}')} "
        f"{map_arg(n.kwargs, lambda a: f'%{places[a]}')}"
        for n in graph.nodes
        if n.op != "placeholder"
    ]
    given = [_described(n.meta.get("val")) for n in arguments]
    return digest("\n".join([_CALLS, runner.name, *given, *lines]))[:_DIGEST]


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


def make(name: str, fused: Fused, arguments: Sequence[Node], runner: Runner) -> OpOverload:
    """Registers the operator; it changes no argument, and its results are new tensors."""
    takes = ", ".join(f"{_kind(n)} x{k}" for k, n in enumerate(arguments))
    gives = "Tensor" if fused.count == 1 else f"({', '.join(['Tensor'] * fused.count)})"
    _LIBRARY.define(
        f"{name}({takes}) -> {gives}", tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)
    )
    _LIBRARY.impl(name, fused.__call__, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{name}", fused.fake, lib=_LIBRARY)
    op: OpOverload = getattr(torch.ops.syncverify, name).default
    _MADE[name] = (runner, fused, op)
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
    from torch._inductor.select_algorithm import extern_kernels

    called = f"{_NAMESPACE}_{name}"
    try:
        through_dispatcher = lowering.fallback_handler(op, add_to_fallback_set=False)
    except (AttributeError, TypeError):
        return  # another version of torch: its programs call the operator
    setattr(extern_kernels, called, fused.into)
    shape, strides, dtype = result

    def lowered(*arguments: Any) -> Any:
        if config.cpp_wrapper:
            return through_dispatcher(*arguments)
        inputs = [ir.ExternKernel.realize_input(x) for x in arguments]
        layout = ir.FixedLayout(inputs[0].get_device(), dtype, shape, strides)
        return ir.TensorBox.create(
            ir.ExternKernelOut(layout, inputs, python_kernel_name=f"extern_kernels.{called}", op_overload=op)
        )

    lowering.register_lowering(op, type_promotion_kind=None)(lowered)


def _kind(argument: Node) -> str:
    x = argument.meta.get("val")
    if isinstance(x, torch.Tensor):
        return "Tensor"
    if isinstance(x, (torch.SymInt, int)) and not isinstance(x, bool):
        return "SymInt"
    raise UnfitError("an argument that no operator takes")


def check_arguments(arguments: Sequence[Node]) -> None:
    """Raises UnfitError for arguments that no operator takes."""
    for argument in arguments:
        _kind(argument)


__all__ = ["check_arguments", "fused_of", "identity", "known", "make", "name_of"]
