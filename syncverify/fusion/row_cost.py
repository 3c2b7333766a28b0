"""What a fusion of rows takes on a card: a model of the time of a row, of what a schedule makes threads do.

A schedule is counted first (``counted``): accesses and elements of a thread, operations, exchanges between
lanes and warps, bytes, rows under way on a multiprocessor. None of this depends on the card. ``cycles`` then
weighs the counts by a card's ``Coefficients``, which are fitted to measured launches
(``benchmarks/hardware/rows_fit.py``).

Three things bound the rows that a multiprocessor finishes: its share of the memory's bandwidth, the
instructions that it issues, and the latency of a row over as many rows as are under way. The slowest sets the
pace and the others delay it a little: the times are joined by a norm, (x^p + y^p + z^p)^(1/p).
"""

from __future__ import annotations

from dataclasses import dataclass

from syncverify.fusion import online, row_schedule, streamed
from syncverify.fusion.dataflow import Dataflow
from syncverify.fusion.elements import stored_node
from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import Fusion
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.ir.nodes import DTYPE_BYTES

#: Bytes of a piece of streamed rows that a thread reads together, and elements of rows that are read again.
PIECE_BYTES, GROUP = 64, 16
LANES, REGISTERS, THREADS, WARP_SLOTS = 32, 65536, 2048, 4
#: Operations that take several instructions, and how many; all others take one.
DEAR = {
    "exp": 4, "log": 4, "tanh": 8, "erf": 12, "gelu": 14, "gelu_tanh": 12, "silu": 8, "sigmoid": 8, "div": 6,
    "rsqrt": 4, "sqrt": 4, "random": 40, "pow": 20,
}  # fmt: skip
#: What needs no instruction.
FREE = frozenset({"input", "const", "integer", "size", "index", *REDUCTIONS})


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a fusion the time of its rows depends on.

    ``rows_in``: tensors that are read along rows, ``rows_out``: that are written, ``vectors``: that all rows
    share. ``bytes`` of an element of all rows read and written, ``bytes_in`` read. ``steps``: how often
    elements are gone through and read; ``reads``: loads of an element along rows, if each step loads again.
    ``again``: operations of an element then, ``operations``: if it stays. ``kept``: how many numbers of it
    stay from step to step. ``exchanges``: steps that end in reductions; ``reductions``; ``taken``: elements
    that an index names.
    """

    rows_in: int
    rows_out: int
    vectors: int
    bytes: int
    bytes_in: int
    widest: int
    steps: int
    reads: int
    operations: int
    again: int
    kept: int
    exchanges: int
    reductions: int
    taken: int

    @staticmethod
    def of(fusion: Fusion, pieces: bool = False) -> Facts:
        """``pieces``: of rows that are gone through piece by piece, where some reductions share a step."""
        plain = Dataflow(fusion, fusion.dims[-1])
        found = online.statistics(fusion, fusion.dims[-1], plain.live) if pieces else ()
        flow = Dataflow(fusion, fusion.dims[-1], online.together(found)) if pieces else plain
        along = [n for n, t in fusion.inputs if n in fusion.streamed]
        out = [o for o in fusion.outputs if o.dims == fusion.dims]
        kinds = dict(fusion.inputs)
        sizes = [DTYPE_BYTES[kinds[n].dtype] for n in along] + [DTYPE_BYTES[o.dtype] for o in out]
        cost = {i: 0 if flow.node(i).op in FREE else DEAR.get(flow.node(i).op, 1) for i in flow.live}
        wide = [i for i in flow.live if flow.wide(i)]
        reads = again = steps = kept = 0
        for step in range(flow.steps):
            roots = [flow.node(i).args[0] for i in flow.reductions.get(step, [])]
            roots += [s for o in out if flow.depth[s := stored_node(fusion, o)] == step]
            needed = set(roots).union(*(fusion.needed([r]) for r in roots)) if roots else set()
            loads = sum(fusion.node(i).op == "input" and fusion.node(i).name in along for i in needed)
            steps, reads = steps + (loads > 0), reads + loads
            again += sum(cost[i] for i in wide if i in needed)
            kept = max(kept, _kept(flow, step))
        operations = sum(cost[i] for i in wide)
        vectors = sum(t.dims == fusion.dims[-1:] for _, t in fusion.inputs)
        return Facts(
            len(along), len(out), vectors, sum(sizes), sum(sizes[: len(along)]) or 1, max(sizes, default=4),
            steps, reads, operations, again, kept, len(flow.reductions),
            sum(map(len, flow.reductions.values())), len(flow.taken),
        )  # fmt: skip


def _kept(flow: Dataflow, step: int) -> int:
    """How much later steps need of what steps up to this one made or loaded, along the row."""
    found: set[int] = set()
    ended = flow.reductions.get(step, [])  # what ends the step needs nothing later
    work = [i for i in flow.live if flow.depth[i] > step and i not in ended]
    seen = set(work)
    while work:
        for a in flow.node(work.pop()).args:
            if not flow.wide(a) or a in seen or flow.node(a).op in ("index", "const"):
                continue
            if flow.depth[a] <= step and (a in flow.named or flow.node(a).op == "input"):
                found.add(a)
                continue
            seen.add(a)
            work.append(a)
    shared = [i for i in found if flow.node(i).op == "input" and flow.node(i).name in flow.fusion.broadcast]
    return len(found) - len(shared)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a row takes under a schedule, and what a multiprocessor has under way.

    ``bytes`` of memory. ``under_way``: rows. ``warps`` of a row; ``threads`` of a multiprocessor. Of each
    thread: ``accesses`` along the row in one step, ``elements`` of them; ``held``: numbers that
    registers hold at one time; ``passes``: loads of all of them, ``vectors``: loads of operands.
    ``operations``, ``converted`` elements. ``exchanges`` between warps, ``shuffles`` of a warp. ``left``:
    registers of a thread. ``taken``; ``tensors``. The rest are 0 or 1: rows are read ``again``, or
    ``streamed`` piece by piece; they are ``peeled``.
    """

    bytes: float
    under_way: float
    warps: float
    threads: float
    accesses: float
    elements: float
    held: float
    passes: float
    vectors: float
    operations: float
    converted: float
    exchanges: float
    shuffles: float
    left: float
    taken: float
    tensors: float
    again: float
    streamed: float
    peeled: float


@dataclass(frozen=True, slots=True)
class Coefficients:
    """What a card takes, in cycles unless said otherwise.

    ``bandwidth``: bytes of memory in a cycle of one multiprocessor. ``latency``: of the first loads of a row,
    ``repeat``: of those of a later step. ``start``: instructions of a warp and row, ``access``: of an access,
    ``operation``, ``convert``: of an element. ``shuffle``: latency of one. ``barrier``: of an exchange
    between warps, ``part``: for each warp of it. ``piece``: instructions of streamed rows, for each access;
    ``edges``: of a peeled row. ``beside``: registers beside numbers that are held, ``tensor``: for each
    tensor; ``spill``: instructions for each one that a thread lacks. ``take``: latency of an element that an
    index names. ``cached``: share of the bytes that later steps bring from memory where the rows under way
    exceed ``level2`` bytes of L2. ``pace``: power of the norm.
    """

    bandwidth: float
    latency: float
    repeat: float
    start: float
    access: float
    operation: float
    convert: float
    shuffle: float
    barrier: float
    part: float
    piece: float
    edges: float
    beside: float
    tensor: float
    spill: float
    take: float
    cached: float
    level2: float
    pace: float


def in_pieces(schedule: RowSchedule) -> bool:
    """Whether a schedule that leaves nothing open is one of rows that are gone through piece by piece."""
    return schedule.rows == 0


def counted(fusion: Fusion, facts: Facts, schedule: RowSchedule, width: int) -> Counts:
    """What rows of that width take under a schedule that leaves nothing open (``row_schedule.fitted``, or
    ``streamed.fitted`` for rows piece by piece)."""
    pieces = in_pieces(schedule)
    peeled = schedule.peel == "yes"
    vector = row_schedule.widest_vector(fusion) if peeled else row_schedule.vector(fusion, width)
    rows = 1 if pieces else schedule.tile_rows
    cluster = max(schedule.cluster, 1)
    sharing = schedule.warps * LANES * cluster if schedule.warps > 1 or pieces else schedule.row_lanes
    accesses = -(-width // (sharing * vector)) + (1 if peeled else 0)
    again = pieces or schedule.reread == "yes"
    kept = streamed.kept_share(fusion, schedule, width) if pieces else 0.0
    ring = schedule.source == "bulk"
    unroll = max(schedule.unroll, 1)
    threads = (schedule.warps if pieces else schedule.compute_warps + ring) * LANES
    blocks = min(schedule.blocks_per_sm, THREADS // threads)
    # operands of peeled rows are not aligned; rows side by side share them, where they are alike
    single = vector if peeled else 1 / unroll
    reads = facts.reads if again else facts.rows_in
    each = facts.vectors * single
    lanes = min(sharing, LANES)
    # what is read again is handled part by part
    part = min(accesses * vector, PIECE_BYTES * facts.rows_in // facts.bytes_in if pieces else GROUP)
    held = part * facts.rows_in if again else accesses * vector * facts.kept * unroll
    return Counts(
        bytes=width * facts.bytes, under_way=blocks * rows * (schedule.stages if ring else 1) / cluster,
        warps=sharing / LANES, threads=blocks * threads,
        accesses=accesses, elements=accesses * vector, held=held,
        passes=accesses * (reads + facts.rows_out), vectors=accesses * each,
        operations=accesses * vector * (facts.again if again else facts.operations),
        converted=accesses * vector * (reads + facts.rows_out + facts.vectors),
        exchanges=facts.exchanges if sharing > LANES else 0,
        shuffles=facts.reductions * (lanes.bit_length() - 1),
        left=min(255, REGISTERS // (blocks * threads) // 8 * 8), taken=facts.taken,
        tensors=facts.rows_in + facts.rows_out + facts.vectors, again=again * (1 - kept),
        streamed=float(pieces), peeled=float(peeled),
    )  # fmt: skip


def wanted(c: Coefficients, x: Counts) -> float:
    """Registers of a thread."""
    return c.beside + c.tensor * x.tensors + x.held


def cycles(c: Coefficients, x: Counts, steps: float, share: float) -> float:
    """Cycles of a multiprocessor for a row. ``steps``: how often elements are gone through; ``share``: of the
    bytes that a later step reads."""
    # rows that L2 does not hold come from memory again
    away = x.under_way * x.bytes * x.again / c.level2
    beyond = away**4 / (1 + away**4) * x.again * (steps - 1) * share * c.cached
    memory = x.bytes * (1 + beyond) / c.bandwidth
    over = wanted(c, x) - x.left
    short = (abs(over) + over) / 2
    issue = c.start + x.exchanges * c.part * x.warps
    issue = issue + (x.passes + x.vectors) * c.access + x.operations * c.operation + x.converted * c.convert
    issue = issue + x.streamed * x.accesses * c.piece + x.peeled * c.edges
    issue = (issue + c.spill * short) * x.warps / WARP_SLOTS
    late = c.latency + x.again * (steps - 1) * c.repeat + x.shuffles * c.shuffle + x.taken * c.take
    late = late + x.exchanges * (c.barrier + c.part * x.warps)
    late = late / x.under_way
    found: float = (memory**c.pace + issue**c.pace + late**c.pace) ** (1 / c.pace)
    return found


#: Fitted to an H200 (docs/choice.md).
H200 = Coefficients(
    bandwidth=18.94, latency=527.3, repeat=100, start=1, access=5.182, operation=0.58, convert=0.01,
    shuffle=10, barrier=1, part=3.605, piece=7.769, edges=1, beside=12, tensor=2, spill=37.53, take=579.1,
    cached=1, level2=4.476e+05, pace=1.5,
)  # fmt: skip


def share(facts: Facts) -> float:
    """Of the bytes of a row those that a later step reads."""
    return facts.rows_in / max(facts.rows_in + facts.rows_out, 1)


__all__ = ["H200", "Coefficients", "Counts", "Facts", "counted", "cycles", "in_pieces", "share",
           "wanted"]  # fmt: skip
