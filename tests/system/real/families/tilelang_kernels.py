"""TileLang kernels: matmuls, attention, reductions; the compiler adds rings, barriers and warp roles."""

import ast
import re
import sys
from pathlib import Path

import tilelang
import tilelang.language as T
from emit import Emitter, Launch, Leaf, Size, ptr, tensormap
from nvcc import to_ptx
from tilelang import tvm
from tilelang.engine.lower import lower
from tvm.target import Target

HOME = Path(tilelang.__file__).parent
INCLUDES = [f"-I{HOME / 'src'}", f"-I{HOME / '3rdparty' / 'cutlass' / 'include'}"]
HOPPER = Target({"kind": "cuda", "arch": "sm_90a"})
# The compiler is told not to split these kernels into producer and consumer warps, as its users often do.
ONE_ROLE = "one role"
# CUtensorMapDataType and CUtensorMapSwizzle.
DTYPES = {0: "u8", 1: "u16", 2: "u32", 3: "i32", 6: "f16", 7: "f32", 9: "bf16", 11: "f32"}
SWIZZLES = {0: 0, 1: 32, 2: 64, 3: 128}


def matmul(M, N, K, tile, stages, threads=128, dtype="float16", out="float16", rows=False):
    bm, bn, bk = tile

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype), B: T.Tensor((N, K) if rows else (K, N), dtype), C: T.Tensor((M, N), out)
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if rows else (bk, bn), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], a)
                if rows:
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, acc, transpose_B=rows)
            T.copy(acc, C[by * bm, bx * bn])

    return gemm


def matmul_shared_epilogue(M, N, K, tile, stages, threads=128):
    bm, bn, bk = tile

    @T.prim_func
    def gemm_relu(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            c = T.alloc_shared((bm, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(bm, bn):
                acc[i, j] = T.max(acc[i, j], 0)
            T.copy(acc, c)
            T.copy(c, C[by * bm, bx * bn])

    return gemm_relu


def split_k(M, N, K, tile, stages, split):
    bm, bn, bk = tile

    @T.prim_func
    def gemm_split(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), split, threads=128) as (bx, by, bz):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K // split, bk), num_stages=stages):
                T.copy(A[by * bm, bz * (K // split) + k * bk], a)
                T.copy(B[bz * (K // split) + k * bk, bx * bn], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(bm, bn):
                T.atomic_add(C[by * bm + i, bx * bn + j], acc[i, j])

    return gemm_split


def persistent(M, N, K, tile, stages, programs):
    bm, bn, bk = tile

    @T.prim_func
    def gemm_persistent(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")
    ):
        with T.Kernel(programs, threads=128) as (block,):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            for wave in T.serial(T.ceildiv(T.ceildiv(M, bm) * T.ceildiv(N, bn), programs)):
                tile_id = wave * programs + block
                by = tile_id // T.ceildiv(N, bn)
                bx = tile_id % T.ceildiv(N, bn)
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                    T.copy(A[by * bm, k * bk], a)
                    T.copy(B[k * bk, bx * bn], b)
                    T.gemm(a, b, acc)
                T.copy(acc, C[by * bm, bx * bn])

    return gemm_persistent


def attention(batch, heads, length, dim, bm, bn, stages, threads, causal=False):
    shape = (batch, length, heads, dim)

    @T.prim_func
    def flash(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, bm), heads, batch, threads=threads) as (bx, by, bz):
            q = T.alloc_shared((bm, dim), "float16")
            k = T.alloc_shared((bn, dim), "float16")
            v = T.alloc_shared((bn, dim), "float16")
            scores = T.alloc_fragment((bm, bn), "float32")
            cast = T.alloc_fragment((bm, bn), "float16")
            acc = T.alloc_fragment((bm, dim), "float32")
            top = T.alloc_fragment((bm,), "float32")
            before = T.alloc_fragment((bm,), "float32")
            fade = T.alloc_fragment((bm,), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.copy(Q[bz, bx * bm : (bx + 1) * bm, by, :], q)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * bm, bn) if causal else T.ceildiv(length, bn)
            for s in T.Pipelined(steps, num_stages=stages):
                T.copy(K[bz, s * bn : (s + 1) * bn, by, :], k)
                if causal:
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(bx * bm + i >= s * bn + j, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.fill(top, -T.infinity("float32"))
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    top[i] = T.max(top[i], before[i])
                    fade[i] = T.exp2(before[i] - top[i])
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] - top[i])
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * fade[i] + part[i]
                T.copy(scores, cast)
                for i, j in T.Parallel(bm, dim):
                    acc[i, j] *= fade[i]
                T.copy(V[bz, s * bn : (s + 1) * bn, by, :], v)
                T.gemm(cast, v, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                acc[i, j] /= total[i]
            T.copy(acc, q)
            T.copy(q, O[bz, bx * bm : (bx + 1) * bm, by, :])

    return flash


def dequantized(M, N, K, tile, stages):
    bm, bn, bk = tile

    @T.prim_func
    def gemm_int8_weights(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "int8"), C: T.Tensor((M, N), "float16")
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            raw = T.alloc_shared((bn, bk), "int8")
            local = T.alloc_fragment((bn, bk), "int8")
            wide = T.alloc_fragment((bn, bk), "float16")
            b = T.alloc_shared((bn, bk), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[bx * bn, k * bk], raw)
                T.copy(raw, local)
                for i, j in T.Parallel(bn, bk):
                    wide[i, j] = local[i, j].astype("float16")
                T.copy(wide, b)
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * bm, bx * bn])

    return gemm_int8_weights


def rms_norm(rows, cols, block):
    @T.prim_func
    def rms(A: T.Tensor((rows, cols), "float32"), B: T.Tensor((rows, cols), "float32")):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            a = T.alloc_shared((block, cols), "float32")
            squares = T.alloc_fragment((block, cols), "float32")
            values = T.alloc_fragment((block, cols), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block : (bx + 1) * block, :], a)
            T.copy(a, values)
            for i, j in T.Parallel(block, cols):
                squares[i, j] = values[i, j] * values[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / cols + 1e-6)
            for i, j in T.Parallel(block, cols):
                values[i, j] *= total[i]
            T.copy(values, a)
            T.copy(a, B[bx * block : (bx + 1) * block, :])

    return rms


def pointwise(M, N, bm, bn):
    @T.prim_func
    def add(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bn), "float32")
            b = T.alloc_shared((bm, bn), "float32")
            c = T.alloc_fragment((bm, bn), "float32")
            T.copy(A[by * bm, bx * bn], a)
            T.copy(B[by * bm, bx * bn], b)
            for i, j in T.Parallel(bm, bn):
                c[i, j] = a[i, j] + b[i, j]
            T.copy(c, C[by * bm, bx * bn])

    return add


def column_reduction(M, N, bm, bn, stages):
    @T.prim_func
    def sums(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, bm), threads=128) as bx:
            a = T.alloc_shared((bm, bn), "float32")
            local = T.alloc_fragment((bm, bn), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(N, bn), num_stages=stages):
                T.copy(A[bx * bm, k * bn], a)
                T.copy(a, local)
                T.reduce_sum(local, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] += part[i]
            T.copy(total, B[bx * bm])

    return sums


def top_level(text: str) -> list[str]:
    """`a, f(b, c), d` split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def call_arguments(text: str, callee: str) -> list[list[str]]:
    """The arguments of every `T.call_packed("callee", ...)` in the host function's text."""
    calls = []
    for match in re.finditer(rf'T\.call_packed\("{re.escape(callee)}", ', text):
        depth, end = 1, match.end()
        while depth:
            depth += (text[end] in "([{") - (text[end] in ")]}")
            end += 1
        calls.append(top_level(text[match.end() : end - 1]))
    return calls


def value(text: str, sizes: dict[str, int]) -> int:
    """An integer expression of the host function."""
    text = re.sub(r"T\.(u?int\d+|Cast)\((?:\"\w+\", )?", "(", text)
    for node in ast.walk(tree := ast.parse(text, mode="eval")):
        if isinstance(node, ast.Call):
            raise ValueError(f"cannot evaluate {text}")
    return int(eval(compile(tree, "<host>", "eval"), {}, dict(sizes)))


def compile_kernel(emitter: Emitter, name: str, function, sizes: dict[str, int], covers) -> None:
    one_role = {"tl.disable_warp_specialized": True} if ONE_ROLE in covers else {}
    with HOPPER, tvm.transform.PassContext(config=one_role):
        artifact = lower(function, target=HOPPER)
    ((entry, device),) = [(str(k.name_hint), f) for k, f in artifact.device_mod.functions.items()]
    host = str(artifact.host_mod)
    maps = {}
    for args in call_arguments(host, "__tvm_tensormap_create_tiled"):
        rank = int(args[2])
        box = [value(a, sizes) for a in args[4 + 2 * rank : 4 + 3 * rank]]
        maps[args[0]] = tensormap(args[0], DTYPES[int(args[1])], box, SWIZZLES[int(args[-3])])
    (call,) = call_arguments(host, entry)
    extents = {str(k): value(str(v), sizes) for k, v in device.attrs["thread_extent"].items()}
    params = {}
    for index, param in enumerate(device.params):
        label = str(param.name)
        if label in maps:
            params[index] = maps[label]
        elif "handle" in str(param.dtype):
            params[index] = ptr(label)
        else:
            params[index] = Leaf(
                {"int32": "i32", "int64": "i64"}[str(param.dtype)], Size(label, sizes[label])
            )
    assert len(call) >= len(params)
    shared = device.attrs["dyn_shared_memory_buf"] if "dyn_shared_memory_buf" in device.attrs else 0
    launch = Launch(
        block=tuple(extents.get(f"threadIdx.{d}", 1) for d in "xyz"),
        grid=tuple(extents.get(f"blockIdx.{d}", 1) for d in "xyz"),
        dynamic_smem=int(shared),
        params=params,
        assume=tuple(f"{n} >= 1" for n in sizes),
    )
    text = to_ptx(artifact.kernel_source, emitter.out / f"{name}.cu", [*INCLUDES, "-lineinfo"])
    emitter.kernel(name, text, launch, covers)


def cases() -> list[tuple]:
    M, N, K = (T.dynamic(n) for n in "MNK")
    some = {"M": 256, "N": 256, "K": 256}
    square = (128, 128, 64)
    ws = ["tma", "warp-specialized", "wgmma"]
    return [
        ("matmul_s3", lambda: matmul(256, 256, 256, square, 3), {}, ws),
        ("matmul_s2_256_threads", lambda: matmul(256, 256, 512, square, 2, threads=256), {}, ws),
        (
            "matmul_s4_bf16_rows",
            lambda: matmul(256, 256, 512, (64, 128, 64), 4, dtype="bfloat16", out="bfloat16", rows=True),
            {},
            ws,
        ),
        (
            "matmul_fp8",
            lambda: matmul(256, 256, 512, (128, 128, 128), 3, dtype="float8_e4m3", rows=True),
            {},
            [*ws, "fp8"],
        ),
        ("matmul_no_pipeline", lambda: matmul(256, 256, 256, square, 0), {}, ["wgmma"]),
        ("matmul_any_k", lambda: matmul(256, 256, K, square, 3), {"K": 256}, ws),
        ("matmul_any_size", lambda: matmul(M, N, K, square, 3), some, ws),
        ("matmul_any_size_s2", lambda: matmul(M, N, K, (64, 64, 32), 2), some, ws),
        ("relu_shared_epilogue", lambda: matmul_shared_epilogue(256, 256, 256, square, 3), {}, ws),
        (
            "relu_shared_epilogue_any_k",
            lambda: matmul_shared_epilogue(256, 256, K, square, 2),
            {"K": 256},
            ws,
        ),
        ("split_k", lambda: split_k(256, 256, 512, square, 2, 2), {}, [*ws, "split-k"]),
        ("persistent", lambda: persistent(256, 256, 256, square, 3, 2), {}, [*ws, "persistent"]),
        ("attention_d64", lambda: attention(1, 2, 256, 64, 64, 64, 2, 128), {}, [*ws, "attention"]),
        ("attention_d128", lambda: attention(1, 2, 256, 128, 128, 64, 2, 256), {}, [*ws, "attention"]),
        (
            "attention_d64_causal",
            lambda: attention(1, 2, 256, 64, 64, 64, 2, 128, causal=True),
            {},
            [*ws, "attention"],
        ),
        (
            "attention_any_length",
            lambda: attention(1, 2, T.dynamic("L"), 64, 64, 64, 2, 128),
            {"L": 256},
            [*ws, "attention"],
        ),
        ("int8_weights", lambda: dequantized(256, 256, 256, (64, 64, 64), 2), {}, ["wgmma"]),
        ("rms_norm", lambda: rms_norm(64, 512, 4), {}, ["reduction"]),
        ("add", lambda: pointwise(256, 256, 64, 64), {}, []),
        ("row_sums_s3", lambda: column_reduction(256, 1024, 64, 64, 3), {}, ["reduction"]),
        ("row_sums_any", lambda: column_reduction(M, N, 64, 64, 2), {"M": 256, "N": 1024}, ["reduction"]),
    ]


def one_role_cases() -> list[tuple]:
    M, N, K = (T.dynamic(n) for n in "MNK")
    some = {"M": 256, "N": 256, "K": 256}
    square, small = (128, 128, 64), (64, 64, 64)
    kernels = {
        "matmul_s3": (lambda: matmul(256, 256, 256, square, 3), {}),
        "matmul_s2_256_threads": (lambda: matmul(256, 256, 512, square, 2, threads=256), {}),
        "matmul_s4_small": (lambda: matmul(256, 256, 512, small, 4), {}),
        "matmul_bf16_rows": (
            lambda: matmul(256, 256, 512, square, 3, dtype="bfloat16", out="bfloat16", rows=True),
            {},
        ),
        "matmul_f32_out": (lambda: matmul(256, 256, 256, square, 3, out="float32"), {}),
        "matmul_any_k": (lambda: matmul(256, 256, K, square, 3), {"K": 256}),
        "matmul_any_size": (lambda: matmul(M, N, K, square, 2), some),
        "relu_shared_epilogue": (lambda: matmul_shared_epilogue(256, 256, 256, square, 3), {}),
        "split_k": (lambda: split_k(256, 256, 512, square, 2, 2), {}),
        "persistent": (lambda: persistent(256, 256, 256, square, 3, 2), {}),
        "attention_d64": (lambda: attention(1, 2, 256, 64, 64, 64, 2, 128), {}),
        "attention_d128": (lambda: attention(1, 2, 256, 128, 128, 64, 2, 256), {}),
        "attention_d64_causal": (lambda: attention(1, 2, 256, 64, 64, 64, 2, 128, causal=True), {}),
        "int8_weights": (lambda: dequantized(256, 256, 256, small, 2), {}),
        "row_sums_s3": (lambda: column_reduction(256, 1024, 64, 64, 3), {}),
    }
    return [(f"one_role_{name}", make, sizes, [ONE_ROLE]) for name, (make, sizes) in kernels.items()]


def main(out: Path, only: list[str]) -> None:
    emitter = Emitter(out, f"tilelang {tilelang.__version__}")
    for name, make, sizes, covers in [*cases(), *one_role_cases()]:
        if only and not any(name.startswith(prefix) for prefix in only):
            continue
        try:
            compile_kernel(emitter, name, make(), sizes, covers)
        except Exception as error:
            emitter.failed(name, error)
        emitter.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
