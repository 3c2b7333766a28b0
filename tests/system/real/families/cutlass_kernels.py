"""CUTLASS 3 GEMMs for Hopper: one instantiation of the collective builders per kernel.

One nvcc run gives both the PTX and a host program that prints the bytes of the kernel's parameters for three values
of K; what differs among them becomes an expression of K.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import cutlass_library
from bytes_facts import Sample, leaves
from emit import Emitter, Launch, one_row
from nvcc import nvcc

SOURCE = Path(cutlass_library.__file__).parent / "source"
HERE = Path(__file__).parent
POINTERS = (
    *("A", "B", "C", "D", "bias", "aux", "A_strides", "B_strides", "C_strides", "D_strides", "problems"),
    *("p11", "p12", "p13", "p14", "workspace"),
)
#: M, N and K of each problem of a grouped product, as they lie in the array that its scheduler reads.
GROUPS = ("i32", (*(256, 256, 256), *(128, 384, 128), *(384, 128, 64), *(200, 130, 192)))


@dataclass(frozen=True)
class Gemm:
    name: str
    schedule: str
    epilogue: str = "TmaWarpSpecialized"
    tile: tuple[int, int, int] = (128, 128, 64)
    cluster: tuple[int, int, int] = (1, 1, 1)
    a: str = "cutlass::half_t"
    b: str = "cutlass::half_t"
    c: str = "cutlass::half_t"
    d: str = "cutlass::half_t"
    acc: str = "float"
    layout_b: str = "ColumnMajor"
    scheduler: str = "void"
    fusion: str = ""
    fusion_args: str = "{1.0f, BETA}"
    beta: float = 0.0
    stages: str = "StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>"
    problem: tuple[int, int] = (512, 512)
    programs: int = 4
    splits: int = 0
    covers: tuple[str, ...] = ()

    @property
    def grouped(self) -> bool:
        return "PtrArray" in self.schedule


DENSE = """
#include "cutlass_probe.h"
using cute::Int; using cute::Shape; using cute::make_shape;
constexpr float BETA = {beta}f;
using A = {a}; using B = {b}; using C = {c}; using D = {d}; using Acc = {acc};
using LA = cutlass::layout::RowMajor; using LB = cutlass::layout::{layout_b}; using LC = cutlass::layout::RowMajor;
template <class T> constexpr int align = 128 / cutlass::sizeof_bits<T>::value;
template <class T> constexpr int align_c = 128 / cutlass::sizeof_bits<cute::conditional_t<cute::is_void_v<T>, D, T>>::value;
using MmaTile = Shape<Int<{tm}>, Int<{tn}>, Int<{tk}>>;
using MmaCluster = Shape<Int<{cm}>, Int<{cn}>, Int<{cl}>>;
namespace col = cutlass::gemm::collective;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, MmaTile, MmaCluster,
    cutlass::epilogue::collective::EpilogueTileAuto, Acc, float, C, {ptr_c}, align_c<C>, D, {ptr_c}, align<D>,
    cutlass::epilogue::{epilogue}{fusion}>::CollectiveOp;
using Mainloop = typename col::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, A, {ptr_a}, align<A>, B, {ptr_b}, align<B>, Acc, MmaTile, MmaCluster,
    col::{stages}, cutlass::gemm::{schedule}>::CollectiveOp;
"""

PLAIN = """
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, {scheduler}>;
int main(int argc, char** argv) {{
  for (int i = 1; i < argc; ++i) {{
    int m = {m}, n = {n}, k = std::atoi(argv[i]);
    auto da = cutlass::make_cute_packed_stride(typename Kernel::StrideA{{}}, make_shape(m, k, 1));
    auto db = cutlass::make_cute_packed_stride(typename Kernel::StrideB{{}}, make_shape(n, k, 1));
    auto dc = cutlass::make_cute_packed_stride(typename Kernel::StrideC{{}}, make_shape(m, n, 1));
    auto dd = cutlass::make_cute_packed_stride(typename Kernel::StrideD{{}}, make_shape(m, n, 1));
    cutlass::KernelHardwareInfo hw{{0, {programs}}};
    typename Kernel::Arguments args{{
        cutlass::gemm::GemmUniversalMode::kGemm, {{m, n, k, 1}},
        {{static_cast<A*>(probe::pointer(0)), da, static_cast<B*>(probe::pointer(1)), db}},
        {{{fusion_args}, static_cast<C*>(probe::pointer(2)), dc, static_cast<D*>(probe::pointer(3)), dd}}, hw}};
    {scheduler_args}
    probe::print<Kernel>(args, k);
  }}
}}
template __global__ void cutlass::device_kernel<Kernel>(CUTLASS_GRID_CONSTANT typename Kernel::Params const);
"""

GROUPED = """
using Problem = cutlass::gemm::GroupProblemShape<Shape<int, int, int>>;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue, {scheduler}>;
int main(int argc, char** argv) {{
  for (int i = 1; i < argc; ++i) {{
    int k = std::atoi(argv[i]);
    cutlass::KernelHardwareInfo hw{{0, {programs}}};
    using SA = typename Kernel::InternalStrideA; using SB = typename Kernel::InternalStrideB;
    using SC = typename Kernel::InternalStrideC; using SD = typename Kernel::InternalStrideD;
    typename Kernel::Arguments args{{
        cutlass::gemm::GemmUniversalMode::kGrouped,
        {{k / 64, static_cast<typename Problem::UnderlyingProblemShape*>(probe::pointer(10)), nullptr}},
        {{static_cast<A const**>(probe::pointer(0)), static_cast<SA*>(probe::pointer(6)),
          static_cast<B const**>(probe::pointer(1)), static_cast<SB*>(probe::pointer(7))}},
        {{{fusion_args}, static_cast<C const**>(probe::pointer(2)), static_cast<SC*>(probe::pointer(8)),
          static_cast<D**>(probe::pointer(3)), static_cast<SD*>(probe::pointer(9))}}, hw}};
    probe::print<Kernel>(args, k);
  }}
}}
template __global__ void cutlass::device_kernel<Kernel>(CUTLASS_GRID_CONSTANT typename Kernel::Params const);
"""


def source(gemm: Gemm) -> str:
    star = "*" if gemm.grouped else ""
    scheduler = f"cutlass::gemm::{gemm.scheduler}" if gemm.scheduler != "void" else "void"
    text = DENSE + (GROUPED if gemm.grouped else PLAIN)
    return text.format(
        **{f: getattr(gemm, f) for f in ("a", "b", "c", "d", "acc", "layout_b", "epilogue", "stages", "schedule", "programs", "fusion_args", "beta")},
        fusion=f", cutlass::epilogue::fusion::{gemm.fusion}" if gemm.fusion else "",
        tm=gemm.tile[0], tn=gemm.tile[1], tk=gemm.tile[2],
        cm=gemm.cluster[0], cn=gemm.cluster[1], cl=gemm.cluster[2],
        ptr_a=f"LA{star}", ptr_b=f"LB{star}", ptr_c=f"LC{star}",
        scheduler=scheduler, m=gemm.problem[0], n=gemm.problem[1],
        scheduler_args=f"args.scheduler.splits = {gemm.splits};" if gemm.splits else "",
    )  # fmt: skip


def build(gemm: Gemm, ks: tuple[int, ...]) -> tuple[str, list[dict]]:
    """The kernel's PTX and its launches for each K."""
    includes = [f"-I{HERE}", *(f"-I{SOURCE / p}" for p in ("include", "tools/util/include"))]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.cu").write_text(source(gemm))
        command = [
            nvcc(),
            "-gencode",
            "arch=compute_90a,code=compute_90a",
            "-std=c++17",
            "--keep",
            "--keep-dir",
            folder,
        ]
        command += [
            "--expt-relaxed-constexpr",
            "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
            "-DNDEBUG",
            "-lineinfo",
            *includes,
        ]
        command += ["-o", f"{folder}/probe", f"{folder}/kernel.cu"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, preexec_fn=lambda: os.nice(5)
        )
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr[-200:]]
            raise RuntimeError(errors[0])
        run = subprocess.run([f"{folder}/probe", *map(str, ks)], capture_output=True, text=True, check=True)
        return Path(folder, "kernel.ptx").read_text(), [json.loads(line) for line in run.stdout.splitlines()]


def one_entry(ptx: str) -> str:
    """The module, which must hold the kernel alone."""
    entries = len(re.findall(r"\.entry\s", ptx))
    if entries != 1:
        raise RuntimeError(f"{entries} entries in the PTX")
    return ptx


def emit(emitter: Emitter, gemm: Gemm) -> None:
    step = gemm.tile[2]
    ks = tuple(step * n for n in (4, 6, 9))
    ptx, samples = build(gemm, ks)
    recorded = [Sample(s["k"], bytes.fromhex(s["params"]), dict(enumerate(s["maps"]))) for s in samples]
    exact, general = leaves(recorded, "K", POINTERS)
    if gemm.grouped:
        exact = [replace(leaf, extra=(*leaf.extra, ("holds", GROUPS))) if leaf.value == "problems" else leaf
                 for leaf in exact]  # fmt: skip
    first = samples[0]
    launch = Launch(
        block=tuple(first["block"]),
        grid=tuple(first["grid"]),
        cluster=tuple(first["cluster"]),
        dynamic_smem=first["shared"],
        params={0: exact},
        symbolic_params={0: general},
        assume=(f"K % {step} == 0", "K >= 1", *one_row(first["grid"], first["cluster"])),
    )
    emitter.kernel(gemm.name, one_entry(ptx), launch, gemm.covers)


WS = "KernelTmaWarpSpecialized"
PP, CO = f"{WS}Pingpong", f"{WS}Cooperative"
EW, EC, NS = "TmaWarpSpecialized", "TmaWarpSpecializedCooperative", "NoSmemWarpSpecialized"
FP8, BF16 = "cutlass::float_e4m3_t", "cutlass::bfloat16_t"
GEMMS = (
    Gemm("warp_specialized", WS, EW, covers=("warp-specialized",)),
    Gemm("pingpong", PP, EW, (64, 128, 64), covers=("ping-pong", "persistent")),
    Gemm("cooperative", CO, EC, covers=("cooperative", "persistent")),
    Gemm("cooperative_stream_k", CO, EC, (128, 128, 64), scheduler="StreamKScheduler", covers=("cooperative", "stream-K")),
    Gemm("pingpong_cluster2", PP, EW, (64, 128, 64), (2, 1, 1), covers=("ping-pong", "cluster")),
    Gemm("cooperative_256_cluster2", CO, EC, (256, 128, 64), (2, 1, 1), covers=("cooperative", "cluster")),
    Gemm("cooperative_cluster_1x2", CO, EC, (128, 128, 64), (1, 2, 1), covers=("cooperative", "cluster")),
    Gemm("warp_specialized_cluster_2x2", WS, EW, (128, 128, 64), (2, 2, 1), covers=("warp-specialized", "cluster")),
    Gemm("cp_async_warp_specialized", "KernelCpAsyncWarpSpecialized", NS, (64, 64, 64), covers=("cp.async",)),
    Gemm("cp_async_pingpong", "KernelCpAsyncWarpSpecializedPingpong", NS, (64, 64, 64), covers=("cp.async", "ping-pong")),
    Gemm("cp_async_cooperative", "KernelCpAsyncWarpSpecializedCooperative", NS, (128, 64, 64), covers=("cp.async", "cooperative")),
    Gemm("cp_async_multistage", "KernelMultistage", NS, (64, 64, 64), covers=("cp.async",)),
    Gemm("tma_single_role", "KernelTma", NS, (64, 64, 64), covers=("tma",)),
    Gemm("pingpong_fp8", PP + "FP8FastAccum", EW, (64, 128, 128), a=FP8, b=FP8, c="cutlass::half_t", d=FP8, covers=("ping-pong", "fp8")),
    Gemm("cooperative_fp8", CO + "FP8FastAccum", EC, (128, 128, 128), a=FP8, b=FP8, covers=("cooperative", "fp8")),
    Gemm("warp_specialized_fp8_slow", WS, EW, (64, 128, 128), a=FP8, b=FP8, covers=("warp-specialized", "fp8")),
    Gemm("cooperative_beta", CO, EC, beta=0.5, covers=("cooperative", "source")),
    Gemm("pingpong_no_smem_epilogue", PP, NS, (64, 128, 64), covers=("ping-pong",)),
    Gemm("cooperative_bf16_bias_relu", CO, EC, a=BF16, b=BF16, c="void", d=BF16, fusion="LinCombPerRowBiasEltAct<cutlass::epilogue::thread::ReLu, cutlass::bfloat16_t, float>", fusion_args="{}", covers=("cooperative", "bias")),
    Gemm("warp_specialized_tf32", WS, EW, (64, 64, 32), a="float", b="float", c="float", d="float", covers=("warp-specialized", "tf32")),
    Gemm("cooperative_row_major_b", CO, EC, layout_b="RowMajor", covers=("cooperative",)),
    Gemm("grouped_cooperative", "KernelPtrArrayTmaWarpSpecializedCooperative", "PtrArrayTmaWarpSpecializedCooperative", (128, 128, 64), covers=("grouped", "cooperative")),
    Gemm("grouped_pingpong", "KernelPtrArrayTmaWarpSpecializedPingpong", "PtrArrayTmaWarpSpecializedPingpong", (64, 128, 64), covers=("grouped", "ping-pong")),
    Gemm("cooperative_two_stages", CO, EC, stages="StageCount<2>", covers=("cooperative",)),
    Gemm("pingpong_mixed_int8", PP, EW, (64, 128, 64), b="int8_t", covers=("ping-pong", "mixed")),
)  # fmt: skip


def main(out: Path, only: list[str]) -> None:
    emitter = Emitter(out, f"cutlass {version('nvidia-cutlass')}, nvcc {_nvcc_version()}")
    for gemm in GEMMS:
        if only and gemm.name not in only:
            continue
        try:
            emit(emitter, gemm)
        except (RuntimeError, subprocess.CalledProcessError, OSError) as error:
            emitter.failed(gemm.name, error)
        emitter.close()


def _nvcc_version() -> str:
    text = subprocess.run([nvcc(), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release ([\d.]+)", text)
    return found[1] if found else "?"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
