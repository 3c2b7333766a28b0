"""TileLang kernels after its own tests, one for each test function of six of its files: kernel_gemm,
kernel_gemm_batched, kernel_gemm_with_stride, language_reduce, language_transpose and language_copy.

Sizes, types and stages are those of the function's first case (an 8-bit float of another kind in one copy).
Chosen by that list alone, whatever is found in them. Left out are copies of 4-bit floats, of a single row,
and between shapes that do not match.
"""

import sys
from pathlib import Path

import tilelang
import tilelang.language as T
from emit import Emitter
from tilelang_kernels import compile_kernel

SIZES = (512, 1024, 768)
TILE = (128, 128, 32)


def product(sizes, layout, types, tile=TILE, stages=0, threads=128, held=""):
    """``layout``: n or t for each operand; ``types``: operands, result, sum; ``held``: in registers."""
    (m, n, k), (bm, bn, bk) = sizes, tile
    ta, tb = (x == "t" for x in layout)
    operand, result, sum_type = types
    shape_a, shape_b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    tile_a, tile_b = ((bk, bm) if ta else (bm, bk)), ((bn, bk) if tb else (bk, bn))

    @T.prim_func
    def gemm(A: T.Tensor(shape_a, operand), B: T.Tensor(shape_b, operand), C: T.Tensor((m, n), result)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared(tile_a, operand)
            b = T.alloc_shared(tile_b, operand)
            ra = T.alloc_fragment(tile_a, operand)
            rb = T.alloc_fragment(tile_b, operand)
            acc = T.alloc_fragment((bm, bn), sum_type)
            T.clear(acc)
            for s in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if ta:
                    T.copy(A[s * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, s * bk], a)
                if tb:
                    T.copy(B[bx * bn, s * bk], b)
                else:
                    T.copy(B[s * bk, bx * bn], b)
                if held == "a":
                    T.copy(a, ra)
                    T.gemm(ra, b, acc, transpose_A=ta, transpose_B=tb)
                elif held == "b":
                    T.copy(b, rb)
                    T.gemm(a, rb, acc, transpose_A=ta, transpose_B=tb)
                else:
                    T.gemm(a, b, acc, transpose_A=ta, transpose_B=tb)
            T.copy(acc, C[by * bm, bx * bn])

    return gemm


def batched(batch, m, n, k, tile, threads=128):
    bm, bn, bk = tile

    @T.prim_func
    def gemm_batched(
        A: T.Tensor((batch, m, k), "float16"),
        B: T.Tensor((batch, k, n), "float16"),
        C: T.Tensor((batch, m, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), batch, threads=threads) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float16")
            T.clear(acc)
            for s in T.Pipelined(T.ceildiv(k, bk), num_stages=0):
                T.copy(A[bz, by * bm : (by + 1) * bm, s * bk : (s + 1) * bk], a)
                T.copy(B[bz, s * bk : (s + 1) * bk, bx * bn : (bx + 1) * bn], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[bz, by * bm : (by + 1) * bm, bx * bn : (bx + 1) * bn])

    return gemm_batched


def part_of_a_tile(m, n, k, tile):
    """Operands in shared memory whose rows are longer than the product uses."""
    bm, bn, bk = tile

    @T.prim_func
    def gemm_strided(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, 2 * bk), "float16")
            b = T.alloc_shared((bk, 2 * bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for s in T.Pipelined(T.ceildiv(k, bk), num_stages=0):
                for i, j in T.Parallel(bm, bk):
                    a[i, bk + j] = A[by * bm + i, s * bk + j]
                for i, j in T.Parallel(bk, bn):
                    b[i, bn + j] = B[s * bk + i, bx * bn + j]
                T.gemm(a[:, bk : 2 * bk], b[:, bn : 2 * bn], acc)
            T.copy(acc, C[by * bm, bx * bn])

    return gemm_strided


def reduction(m, n, op="sum", dtype="float32", threads=128, source="r", target="r", keeps=False):
    """Rows of one tile reduced; ``source``, ``target``: registers or shared memory; ``keeps``: onto ones."""
    reduce = getattr(T, f"reduce_{op}")

    @T.prim_func
    def rows(A: T.Tensor((m, n), dtype), B: T.Tensor((m,), dtype)):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_shared((m, n), dtype) if source == "s" else T.alloc_fragment((m, n), dtype)
            b = T.alloc_shared((m,), dtype) if target == "s" else T.alloc_fragment((m,), dtype)
            T.copy(A, a)
            if keeps:
                T.fill(b, 1)
                reduce(a, b, dim=1, clear=False)
            else:
                reduce(a, b, dim=1)
            T.copy(b, B)

    return rows


def transposed(m, n, bm, bn):
    @T.prim_func
    def transpose(A: T.Tensor((m, n), "float16"), B: T.Tensor((n, m), "float16")):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bn), "float16")
            b = T.alloc_shared((bn, bm), "float16")
            T.copy(A[by * bm : (by + 1) * bm, bx * bn : (bx + 1) * bn], a)
            T.transpose(a, b)
            T.copy(b, B[bx * bn : (bx + 1) * bn, by * bm : (by + 1) * bm])

    return transpose


def copied(m, n, bm, bn, stride=0, dtype="float16", threads=128):
    @T.prim_func
    def copy(A: T.StridedTensor((m, n), (stride or n, 1), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            T.copy(
                A[by * bm : (by + 1) * bm, bx * bn : (bx + 1) * bn],
                B[by * bm : (by + 1) * bm, bx * bn : (bx + 1) * bn],
            )

    return copy


def copied_in_parallel(m, n, bm, bn):
    @T.prim_func
    def copy(A: T.Tensor((m, n), "float16"), B: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            for i, j in T.Parallel(bm, bn):
                T.copy(A[by * bm + i, bx * bn + j], B[by * bm + i, bx * bn + j])

    return copy


H, F, BF, D = "float16", "float32", "bfloat16", "float64"
CASES = {
    "gemm_f16f16f16_nn": lambda: product(SIZES, "nn", (H, H, H)),
    "gemm_f16f16f32_nn": lambda: product(SIZES, "nn", (H, H, F)),
    "gemm_bf16bf16f32_nn": lambda: product(SIZES, "nn", (BF, BF, F)),
    "gemm_f32f32f32_nn": lambda: product(SIZES, "nn", (F, F, F), (64, 128, 32)),
    "gemm_f16f16f16_tn": lambda: product(SIZES, "tn", (H, H, H)),
    "gemm_f16f16f16_nt": lambda: product(SIZES, "nt", (H, H, H)),
    "gemm_i8i8i32_nt": lambda: product(SIZES, "nt", ("int8", "int32", "int32"), (128, 128, 64)),
    "gemm_i8i8i32_tn": lambda: product(SIZES, "tn", ("int8", "int32", "int32"), (128, 128, 64)),
    "gemm_f64f64f64_nt": lambda: product((512, 512, 512), "nt", (D, D, D), (64, 32, 16)),
    "gemm_f32f32f32_nt": lambda: product(SIZES, "nt", (F, F, F), (64, 128, 32)),
    "gemm_f32f32f32_tn": lambda: product(SIZES, "tn", (F, F, F), (64, 128, 32)),
    "gemm_pad_aligned": lambda: product((504, 992, 744), "nn", (H, H, H), (128, 256, 32), 2),
    "gemm_pad": lambda: product((503, 1017, 763), "nn", (H, H, H), (128, 256, 32), 2),
    "gemm_pad_f32": lambda: product((531, 1041, 783), "nn", (H, H, F), (128, 64, 32)),
    "gemm_sr": lambda: product(SIZES, "nt", (H, H, H), stages=0, held="b"),
    "gemm_rs": lambda: product(SIZES, "tn", (H, H, H), stages=0, held="a"),
    "gemm_batched": lambda: batched(2, 64, 64, 32, (64, 64, 32)),
    "gemm_with_stride": lambda: part_of_a_tile(128, 128, 64, (32, 32, 32)),
    "reduce_sum": lambda: reduction(128, 128, threads=32),
    "reduce_other_op": lambda: reduction(128, 128, "max", threads=32),
    "reduce_sum_threads": lambda: reduction(32, 32, threads=16),
    "reduce_sum_shared": lambda: reduction(32, 32, source="s", target="s"),
    "reduce_max": lambda: reduction(128, 128, "max", H),
    "reduce_max_shared": lambda: reduction(32, 32, "max", source="s", target="s"),
    "reduce_min_shared": lambda: reduction(32, 32, "min", source="s", target="s"),
    "reduce_abssum_shared": lambda: reduction(32, 32, "abssum", source="s", target="s"),
    "reduce_absmax_shared": lambda: reduction(32, 32, "absmax", source="s", target="s"),
    "reduce_sum_clear": lambda: reduction(128, 128, threads=32, keeps=True),
    "reduce_max_clear": lambda: reduction(128, 128, "max", H, 32, keeps=True),
    "reduce_sum_clear_b_shared": lambda: reduction(128, 128, threads=32, target="s", keeps=True),
    "reduce_sum_clear_ab_shared": lambda: reduction(32, 32, threads=32, source="s", target="s", keeps=True),
    "transpose": lambda: transposed(128, 128, 128, 128),
    "transpose_square": lambda: transposed(256, 256, 128, 128),
    "copy": lambda: copied(1024, 1024, 128, 128),
    "copy_with_stride": lambda: copied(1024, 1024, 128, 128, 2048),
    "copy_buffer_load_with_parallel": lambda: copied_in_parallel(1024, 1024, 128, 128),
    "copy_fp8": lambda: copied(1024, 1024, 128, 128, dtype="float8_e4m3"),
}


def main(out: Path, only: list[str]) -> None:
    emitter = Emitter(out, f"tilelang {tilelang.__version__}", family="tilelang")
    for name, make in CASES.items():
        if only and name not in only:
            continue
        try:
            compile_kernel(emitter, f"suite_{name}", make(), {}, ["test suite"])
        except Exception as error:
            emitter.failed(name, error)
        emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
