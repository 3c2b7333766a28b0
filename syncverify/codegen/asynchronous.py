"""CUDA of what reaches beyond a block, and of copies that are no bulk copies: one call for each statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import Expr, Int
from syncverify.ir.nodes import DTYPE_BYTES, Kernel, Stmt

_BEYOND = (
    n.CpAsync, n.CpAsyncCommit, n.CpAsyncWait, n.CpAsyncMbarrierArrive, n.BulkPrefetch,
    n.ClusterArrive, n.ClusterWait, n.StAsync, n.AtomGlobal, n.SpinGlobal, n.GridDepWait, n.GridDepLaunch,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operands:
    """How operands are written: index expressions, value expressions, addresses in this block and in global
    memory, barriers of this block."""

    index: Callable[[Expr], str]
    value: Callable[[Expr], str]
    shared: Callable[[n.Region], str]
    into_global: Callable[[n.GlobalRegion], str]
    barrier: Callable[[n.BarrierRef], str]


def helpers(kernel: Kernel) -> str:
    """The header that the calls need; nothing where the kernel has none of them."""
    if kernel.launch.ctas == 1 and not any(
        isinstance(s, _BEYOND) or (isinstance(s, n.BulkStore) and s.reduce) for s in statements(kernel.body)
    ):
        return ""
    return files("syncverify.codegen").joinpath("asynchronous.cuh").read_text()


def attribute(kernel: Kernel) -> str:
    """What a kernel of clusters says at its head."""
    x, y, z = kernel.launch.cluster
    return f" __cluster_dims__({x}, {y}, {z})" if kernel.launch.ctas > 1 else ""


def call(kernel: Kernel, stmt: Stmt, to: Operands) -> str | None:
    """The statement as a call; None for a form that has none."""
    for form in (_of_groups, _of_the_cluster, _on_global_memory):
        if (text := form(kernel, stmt, to)) is not None:
            return text
    return None


def _of_groups(kernel: Kernel, stmt: Stmt, to: Operands) -> str | None:
    """cp.async and its groups."""
    match stmt:
        case n.CpAsync(dst, src) if isinstance(src.count, Int):
            size = src.count.value * _bytes(kernel, src.tensor)
            return (
                f"cp_async<{size}>({to.shared(dst)}, {to.into_global(src)});" if size in (4, 8, 16) else None
            )
        case n.CpAsyncCommit():
            return "cp_async_commit();"
        case n.CpAsyncWait(None):
            return "cp_async_wait_all();"
        case n.CpAsyncWait(Int(pending)):
            return f"cp_async_wait<{pending}>();"
        case n.CpAsyncMbarrierArrive(bar, noinc):
            return f"cp_async_mbarrier_arrive{'_noinc' if noinc else ''}({to.barrier(bar)});"
    return None


def _of_the_cluster(kernel: Kernel, stmt: Stmt, to: Operands) -> str | None:
    """What other blocks of the cluster take part in: its barrier, and mbarriers and memory of theirs."""
    match stmt:
        case n.ClusterArrive(sem, False):
            return f"cluster_arrive{'_relaxed' if sem == 'relaxed' else ''}();"
        case n.ClusterWait(False):
            return "cluster_wait();"
        case n.MbarrierWait(bar, phase, False, "acquire", "cluster"):
            return f"mbarrier_wait_cluster({to.barrier(bar)}, {to.index(phase)});"
        case n.MbarrierArrive(bar, None, Int(1), "release", "cluster", False, False, None):
            return f"mbarrier_arrive_cluster({_remote_barrier(bar, to)});"
        case n.MbarrierArrive(bar, None, Int(1), "release", "cta", False, False, None) if (
            bar.rank is not None
        ):
            return f"mbarrier_arrive_remote({_remote_barrier(bar, to)});"
        case n.StAsync(dst, value, bar, None) if dst.count == Int(1) and _shared_type(kernel, dst) == "f32":
            place = f"remote({to.shared(_here(dst))}, {_rank(dst.rank, to)})"
            return f"st_async({place}, {to.value(value)}, {_remote_barrier(bar, to)});"
        case n.StShared(dst, value) if dst.count == Int(1) and _shared_type(kernel, dst) == "f32":
            return f"st_remote(remote({to.shared(_here(dst))}, {_rank(dst.rank, to)}), {to.value(value)});"
    return None


def _on_global_memory(kernel: Kernel, stmt: Stmt, to: Operands) -> str | None:
    """Reductions, semaphores, and the order of grids."""
    match stmt:
        case n.BulkStore(dst, src, "add"):
            total = to.index(dst.count * _bytes(kernel, dst.tensor))
            return f"bulk_reduce_add({to.into_global(dst)}, {to.shared(src)}, {total});"
        case n.AtomGlobal("add", dst, value, None, "release", "gpu") if _type(kernel, dst.tensor) == "u32":
            return f"semaphore_add({to.into_global(dst)}, {to.index(value)});"
        case n.SpinGlobal(src, ">=", value, "acquire", "gpu") if _type(kernel, src.tensor) == "u32":
            return f"semaphore_wait({to.into_global(src)}, {to.index(value)});"
        case n.StGlobal(dst, Int(v), "relaxed", "gpu") if _type(kernel, dst.tensor) == "u32":
            return f"semaphore_set({to.into_global(dst)}, {v});"
        case n.GridDepWait():
            return "griddep_wait();"
        case n.GridDepLaunch():
            return "griddep_launch();"
    return None


def _remote_barrier(bar: n.BarrierRef, to: Operands) -> str:
    own = n.BarrierRef(bar.name, bar.index)
    return f"remote({to.barrier(own)}, {_rank(bar.rank, to)})"


def _here(region: n.Region) -> n.Region:
    """The same place in the executing block."""
    return n.Region(region.buffer, region.index, region.start, region.count, region.rows, region.pitch)


def _rank(rank: Expr | None, to: Operands) -> str:
    return "rank" if rank is None else to.index(rank)


def _type(kernel: Kernel, tensor: str) -> str:
    return next(t.dtype for t in kernel.tensors if t.name == tensor)


def _bytes(kernel: Kernel, tensor: str) -> int:
    return DTYPE_BYTES[_type(kernel, tensor)]


def _shared_type(kernel: Kernel, region: n.Region) -> str:
    return next(s.dtype for s in kernel.shared if s.name == region.buffer)
