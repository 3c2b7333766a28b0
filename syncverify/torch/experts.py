"""Products of experts of different sizes, ``torch._grouped_mm``, by a kernel for groups of 128 rows.

Rows of A are sorted by experts, and ``ends`` has where each expert's rows end. The kernel multiplies groups
of 128 rows, each by one expert's factor, from a first row on that memory holds. An expert's last group goes
on into rows of the next one. So the kernel writes all groups one behind the other, and C is taken from there.

Example: experts of 200, 0 and 30 rows have groups from the rows 0, 128 and 200 on. Row 201 of C is row 257 of
what the kernel writes. As many groups as may be needed are launched: with 3 experts of 230 rows in all, four.
What is left over has a number that no factor has, and rows that A does not have: copies bring zeros.

Tables of groups are arithmetic on integers that Inductor compiles. No table makes a kernel unsafe: numbers
are coordinates of copies, and each group of the result is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from syncverify.matmul.problem import EXPERTS, GROUP_ROWS, LEFT_ROWS, grouped_product
from syncverify.torch import operators, table
from syncverify.torch.candidate import Candidate, region_of
from syncverify.torch.choice import Run
from syncverify.torch.dims import Space, extent
from syncverify.torch.graphs import call_of, inserted
from syncverify.torch.partition import Found
from syncverify.torch.region import Group, fusible, is_item, value_of
from syncverify.torch.runners import Runner
from syncverify.torch.torch_nodes import TorchNodes
from syncverify.torch.translate import Translation, is_contiguous, transposed

#: Rows that are computed by those that there are, at most: beyond, too many groups have few rows.
_MOST_ROWS = 1.5
#: What taking rows costs: nothing, writing them, or reading and writing them.
FREE, WRITTEN, MOVED = "free", "written", "moved"
#: Kernels that tables take, as Inductor compiles them.
_TABLE_KERNELS = 3


def groups_of(rows: int, experts: int) -> int:
    """How many groups any division of rows among experts has at most: one row makes a group."""
    some = min(experts, rows)
    return (rows - some) // GROUP_ROWS + some


def tables(ends: Any, experts: int, rows: int) -> tuple[Any, Any, Any]:
    """Each group's expert and first row of A, and where each row of C lies among all groups' rows."""
    groups = groups_of(rows, experts)
    ends = ends.to(torch.int32)
    firsts = torch.cat([ends.new_zeros(1), ends[:-1]])
    counts = (ends - firsts + (GROUP_ROWS - 1)) >> (GROUP_ROWS.bit_length() - 1)
    behind = torch.cumsum(counts, 0, dtype=torch.int32)
    own = behind - counts
    number = torch.arange(groups, dtype=torch.int32, device=ends.device)
    expert = (number.unsqueeze(1) >= behind).sum(1, dtype=torch.int32)
    at = expert.clamp(max=experts - 1).long()
    starts = torch.where(expert < experts, firsts[at] + (number - own[at]) * GROUP_ROWS, rows)
    row = torch.arange(rows, dtype=torch.int32, device=ends.device)
    of_row = (row.unsqueeze(1) >= ends).sum(1, dtype=torch.int32).clamp(max=experts - 1).long()
    place = own[of_row] * GROUP_ROWS + row - firsts[of_row]
    return expert, starts.to(torch.int32), place.clamp(0, groups * GROUP_ROWS - 1)


def rows_of_experts(
    a: torch.Tensor, b: torch.Tensor, experts: torch.Tensor, starts: torch.Tensor
) -> torch.Tensor:
    """What the kernel writes, by torch: groups of rows one behind the other, in order of their experts."""
    row = torch.arange(GROUP_ROWS, device=a.device)
    rows = (starts.long().unsqueeze(1) + row).flatten().clamp(0, a.shape[0] - 1)
    number = torch.arange(b.shape[0], device=a.device)
    ends = (experts.unsqueeze(0) <= number.unsqueeze(1)).sum(1, dtype=torch.int32) * GROUP_ROWS
    return table.GROUPED(a[rows], b, ends)


def _rows_fake(a: torch.Tensor, b: torch.Tensor, experts: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return a.new_empty(experts.shape[0] * GROUP_ROWS, b.shape[2])


torch.library.custom_op("syncverify::rows_of_experts", rows_of_experts, mutates_args=()).register_fake(
    _rows_fake
)
ROWS = torch.ops.syncverify.rows_of_experts.default


@dataclass(frozen=True, eq=False)
class ExpertsCandidate(Candidate):
    """A product of experts that may become tables, an operator for groups of rows, and what is taken of it.

    ``node``: in its graph. ``arguments`` are the operator's, of a graph of their own. ``taking``: what taking
    rows costs beside a call.
    """

    node: Node
    taking: str

    def torch_nodes(self) -> TorchNodes:
        outputs = self.found.translation.outputs
        return TorchNodes.of(outputs, self.arguments, outputs)

    def put_into(
        self, graph: Graph, op: Any, moved: dict[Node, Node], copies: Mapping[Node, Node] | None = None
    ) -> None:
        """Puts it into the graph. Tables of equal ends are joined by Inductor, which sees equal nodes."""
        node = self.node if copies is None else copies[self.node]
        a, b, ends = (moved.get(x, x) for x in map(_node, node.args[:3]))
        rows, count = value_of(a).shape[0], value_of(b).shape[0]
        with graph.inserting_before(node):
            expert, starts, place = inserted(graph, lambda x: tables(x, count, rows), [ends])
            call = call_of(graph, op, (a, b, expert, starts), value_of(self.found.translation.outputs[0]))
            (taken,) = inserted(graph, lambda x, at: (torch.index_select(x, 0, at),), [call, place])
        moved[node] = taken
        node.replace_all_uses_with(taken)


def _node(argument: Any) -> Node:
    assert isinstance(argument, Node)
    return argument


def of_experts(module: GraphModule, taken: Set[Node], runner: Runner) -> list[Candidate]:
    """The products of experts of a graph that are not among the taken nodes, and that a kernel computes."""
    return [
        one
        for node in module.graph.nodes
        if node.op == "call_function" and node.target == table.GROUPED and node not in taken
        for one in _candidate(node, runner)
    ]


def _candidate(node: Node, runner: Runner) -> Iterator[ExpertsCandidate]:
    if not _fits(node):
        return
    a, b = (value_of(_node(x)) for x in node.args[:2])
    ends = value_of(_node(node.args[2]))
    rows, count = int(a.shape[0]), int(b.shape[0])
    groups = groups_of(rows, count)
    graph = Graph()
    values = a, b, *(ends.new_empty(groups, dtype=torch.int32) for _ in range(2))
    arguments = tuple(graph.placeholder(name) for name in ("a", "b", "experts", "starts"))
    for argument, value in zip(arguments, values, strict=True):
        argument.meta["val"] = value
    made = call_of(graph, ROWS, arguments, a.new_empty(groups * GROUP_ROWS, b.shape[2]))
    name = "fused_grouped_mm"
    layout = "K" + ("K" if transposed(arguments[1]) else "N")
    dtype = table.DTYPES[a.dtype]
    problem = grouped_product(dtype, layout, name, dtype, anywhere=True)
    problem = replace(problem, epilogue=replace(problem.epilogue, name=name))
    sizes = {"M": groups * GROUP_ROWS, "N": b.shape[2], "K": a.shape[1], EXPERTS: count, LEFT_ROWS: rows}
    extents = {d: extent(n) for d, n in sizes.items()}
    translation = Translation(problem.epilogue, arguments, (made,), extents, problem)
    found = Found(Group(Space(), {}, {}, {node: None}), translation)
    key, taking = operators.identity([made], arguments, [made], runner), _taking(node)
    called = operators.name_of(name, key, runner)
    timed_as = f"{key} {taking}"
    yield ExpertsCandidate(found, arguments, timed_as, called, region_of(found), a.device, node, taking)


def _taking(node: Node) -> str:
    """What taking rows costs where loops read the product: nothing, or a copy for others; else all of it."""
    in_loops = [fusible(r) for r in _readers(node)]
    return FREE if in_loops and all(in_loops) else WRITTEN if any(in_loops) else MOVED


def _readers(node: Node) -> Iterator[Node]:
    """What reads a product, through all that only looks at it otherwise, such as its halves."""
    for user in node.users:
        returns = getattr(getattr(user.target, "_schema", None), "returns", ())
        if is_item(user) or any(r.alias_info is not None for r in returns):
            yield from _readers(user)
        else:
            yield user


def _fits(node: Node) -> bool:
    """Whether it is rows of experts by their factors, of sizes and in an order that the kernel takes."""
    args = [*node.args, None, None, None][:5]
    if not all(isinstance(x, Node) for x in args[:3]) or args[3] is not None or node.kwargs:
        return False
    a, b, ends = (value_of(_node(x)) for x in args[:3])
    if a is None or b is None or ends is None or a.dim() != 2 or b.dim() != 3:
        return False
    numbers = [*a.shape, *b.shape, *b.stride(), *ends.shape]
    if not all(isinstance(n, int) for n in numbers) or a.dtype not in (torch.bfloat16, torch.float16):
        return False
    if b.dtype != a.dtype or args[4] not in (None, a.dtype) or ends.shape != b.shape[:1]:
        return False
    rows, width, columns = (int(n) for n in (*a.shape, b.shape[2]))
    if 0 in numbers[:5] or width % 8 or columns % 8 or not is_contiguous(a):
        return False
    in_order = is_contiguous(b) or is_contiguous(b.transpose(1, 2))
    return in_order and groups_of(rows, b.shape[0]) * GROUP_ROWS <= _MOST_ROWS * rows


# ---------------------------------------------------------------- time


def library_call(c: ExpertsCandidate) -> Run:
    """The product by torch's library, of experts of equal sizes: which they will have nobody knows."""
    return _planned(c, lambda a, b, known: table.GROUPED(a, b, known[0]))


def kernel_call(c: ExpertsCandidate) -> Run:
    """The same by the candidate's kernel, whose operator has been made.

    With as many small kernels as tables take. Loops of Inductor's read rows where they lie; where others need
    them, too, such a loop also writes them.
    """
    fused = operators.fused_of(c.name)
    made = c.found.translation.outputs[0].meta["val"]
    shape, dtype = tuple(made.shape), made.dtype

    def run(a: Any, b: Any, known: Sequence[Any]) -> Any:
        ends, expert, starts, place = known
        for _ in range(_TABLE_KERNELS):
            ends.neg()
        out = torch.empty(shape, dtype=dtype, device=a.device)
        fused.into(a, b, expert, starts, out=out)
        if c.taking == WRITTEN:
            torch.zeros((len(place), shape[1]), dtype=dtype, device=a.device)
        return torch.index_select(out, 0, place) if c.taking == MOVED else out

    return _planned(c, run)


def _planned(c: ExpertsCandidate, run: Callable[[Any, Any, Sequence[Any]], Any]) -> Run:
    given = list(dict.fromkeys(c.node.all_input_nodes))
    places = [given.index(_node(x)) for x in c.node.args[:2]]
    sizes = c.found.translation.extents
    rows, count = int(sizes[LEFT_ROWS]), int(sizes[EXPERTS])

    @lru_cache(maxsize=1)
    def known(device: torch.device) -> Sequence[Any]:
        ends = torch.arange(1, count + 1, device=device) * rows // count
        return ends.int(), *tables(ends, count, rows)

    def call(tensors: Sequence[Any]) -> Any:
        a, b = (tensors[k] for k in places)
        return run(a, b, known(a.device))

    return call


__all__ = [
    "ROWS", "ExpertsCandidate", "groups_of", "kernel_call", "library_call", "of_experts",
    "rows_of_experts", "tables",
]  # fmt: skip
