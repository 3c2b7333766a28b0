"""Products of matrices by warps and warpgroups."""

_N = range(8, 257, 8)
#: N of integer products, and of single bits.
_N_INT = (8, 16, 24, *range(32, 257, 16))


def _shapes(k: int, columns: object = _N) -> str:
    """``m64n8k16|m64n16k16|...``: the shapes of a wgmma with depth ``k``."""
    assert isinstance(columns, range | tuple)
    return "|".join(f"m64n{n}k{k}" for n in columns)


def _wgmma() -> str:
    """The rows of ``wgmma.mma_async``: A by descriptor or in registers, dense or sparse."""
    rows = []
    for sparse, head, meta in ((1, "wgmma.mma_async", ""), (2, "wgmma.mma_async.sp", " r:b32 i")):
        for types, k, trans in (
            ("D:f16|f32 A:f16 B:f16", 16, 2),
            ("D:f32 A:bf16 B:bf16", 16, 2),
            ("D:f32 A:tf32 B:tf32", 8, 0),
            ("D:f16|f32 A:F8 B:F8", 32, 0),
        ):
            shapes = _shapes(k * sparse)
            for a, left in (("s:u64", trans), ("v", trans // 2)):
                operands = f"v {a} s:u64{meta} q i i{' i' * left}"
                rows.append(f"{head} sync aligned {shapes} {types} ; {operands} ; ptx=8.0 arch=90a")
        shapes = _shapes(32 * sparse, _N_INT)
        for a in ("s:u64", "v"):
            operands = f"v {a} s:u64{meta} q"
            types = "~satfinite? D:s32 A:s8|u8 B:s8|u8"
            rows.append(f"{head} sync aligned {shapes} {types} ; {operands} ; ptx=8.0 arch=90a")
    shapes = _shapes(256, _N_INT)
    for a in ("s:u64", "v"):
        operands = f"v {a} s:u64 q"
        rows.append(
            f"wgmma.mma_async sync aligned {shapes} D:s32 A:b1 B:b1 and popc ; {operands} ; ptx=8.0 arch=90a"
        )
    return "\n".join(f"{row} mask=warpgroup" for row in rows)


ROWS = f"""
@chapter Warp Level Matrix Multiply-Accumulate Instructions
@effect matrix read
wmma.load.a sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:f16 ; v a s:u32? ; ptx=6.0 arch=70 mask=warp
wmma.load.b sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:f16 ; v a s:u32? ; ptx=6.0 arch=70 mask=warp
wmma.load.c sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:f16|f32|s32 ; v a s:u32? ; ptx=6.0 arch=70 mask=warp
wmma.load.a sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:s8|u8 ; v a s:u32? ; ptx=6.3 arch=72 mask=warp
wmma.load.a sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:bf16 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.a sync aligned LAYOUT:row|col SHAPE:m16n16k8 SPACE:global|shared|shared::cta? T:tf32 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.b sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:s8|u8 ; v a s:u32? ; ptx=6.3 arch=72 mask=warp
wmma.load.b sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:bf16 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.b sync aligned LAYOUT:row|col SHAPE:m16n16k8 SPACE:global|shared|shared::cta? T:tf32 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.c sync aligned LAYOUT:row|col SHAPE:m16n16k8 SPACE:global|shared|shared::cta? T:f32 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.a sync aligned LAYOUT:row|col SHAPE:m8n8k4 SPACE:global|shared|shared::cta? T:f64 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.b sync aligned LAYOUT:row|col SHAPE:m8n8k4 SPACE:global|shared|shared::cta? T:f64 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.c sync aligned LAYOUT:row|col SHAPE:m8n8k4 SPACE:global|shared|shared::cta? T:f64 ; v a s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.load.a sync aligned LAYOUT:row SHAPE:m8n8k32 SPACE:global|shared|shared::cta? T:s4|u4 ; v a s:u32? ; ptx=6.3 arch=75 mask=warp
wmma.load.b sync aligned LAYOUT:col SHAPE:m8n8k32 SPACE:global|shared|shared::cta? T:s4|u4 ; v a s:u32? ; ptx=6.3 arch=75 mask=warp
wmma.load.a sync aligned LAYOUT:row SHAPE:m8n8k128 SPACE:global|shared|shared::cta? T:b1 ; v a s:u32? ; ptx=6.3 arch=75 mask=warp
wmma.load.b sync aligned LAYOUT:col SHAPE:m8n8k128 SPACE:global|shared|shared::cta? T:b1 ; v a s:u32? ; ptx=6.3 arch=75 mask=warp
wmma.load.c sync aligned LAYOUT:row|col SHAPE:m8n8k32|m8n8k128 SPACE:global|shared|shared::cta? T:s32 ; v a s:u32? ; ptx=6.3 arch=75 mask=warp
@effect matrix write
wmma.store.d sync aligned LAYOUT:row|col SHAPE:m16n16k16|m8n32k16|m32n8k16 SPACE:global|shared|shared::cta? T:f16|f32|s32 ; a v s:u32? ; ptx=6.0 arch=70 mask=warp
wmma.store.d sync aligned LAYOUT:row|col SHAPE:m8n8k32|m8n8k128 SPACE:global|shared|shared::cta? T:s32 ; a v s:u32? ; ptx=6.3 arch=75 mask=warp
wmma.store.d sync aligned LAYOUT:row|col SHAPE:m16n16k8 SPACE:global|shared|shared::cta? T:f32 ; a v s:u32? ; ptx=7.0 arch=80 mask=warp
wmma.store.d sync aligned LAYOUT:row|col SHAPE:m8n8k4 SPACE:global|shared|shared::cta? T:f64 ; a v s:u32? ; ptx=7.0 arch=80 mask=warp
@effect matrix registers
wmma.mma sync aligned ~MATRIX:row|col ~MATRIX:row|col ~MATRIX:m16n16k16|m8n32k16|m32n8k16 ~MATRIX:f16|f32 ~MATRIX:f16|f32 ; v v v v ; ptx=6.0 arch=70 mask=warp
wmma.mma sync aligned ~MATRIX:row|col ~MATRIX:row|col ~MATRIX:m16n16k16|m8n32k16|m32n8k16 ~MATRIX:s32 ~MATRIX:s8|u8 ~MATRIX:s8|u8 ~MATRIX:s32 ~satfinite? ; v v v v ; ptx=6.3 arch=72 mask=warp
wmma.mma sync aligned ~MATRIX:row|col ~MATRIX:row|col ~MATRIX:m16n16k16|m8n32k16|m32n8k16 ~MATRIX:f32 ~MATRIX:bf16 ~MATRIX:bf16 ~MATRIX:f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
wmma.mma sync aligned ~MATRIX:row|col ~MATRIX:row|col ~MATRIX:m16n16k8 ~MATRIX:f32 ~MATRIX:tf32 ~MATRIX:tf32 ~MATRIX:f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
wmma.mma sync aligned ~MATRIX:row|col ~MATRIX:row|col ~MATRIX:m8n8k4 ~RND? ~MATRIX:f64 ~MATRIX:f64 ~MATRIX:f64 ~MATRIX:f64 ; v v v v ; ptx=7.0 arch=80 mask=warp
wmma.mma sync aligned ~MATRIX:row ~MATRIX:col ~MATRIX:m8n8k32 ~MATRIX:s32 ~MATRIX:s4|u4 ~MATRIX:s4|u4 ~MATRIX:s32 ~satfinite? ; v v v v ; ptx=6.3 arch=75 mask=warp
wmma.mma.xor.popc sync aligned ~MATRIX:row ~MATRIX:col ~MATRIX:m8n8k128 ~MATRIX:s32 ~MATRIX:b1 ~MATRIX:b1 ~MATRIX:s32 ; v v v v ; ptx=6.3 arch=75 mask=warp
wmma.mma.and.popc sync aligned ~MATRIX:row ~MATRIX:col ~MATRIX:m8n8k128 ~MATRIX:s32 ~MATRIX:b1 ~MATRIX:b1 ~MATRIX:s32 ; v v v v ; ptx=7.1 arch=80 mask=warp

mma sync aligned ~MATRIX:m8n8k4 ~MATRIX:row|col ~MATRIX:row|col ~MATRIX:f16|f32 ~MATRIX:f16 ~MATRIX:f16 ~MATRIX:f16|f32 ; v v v v ; ptx=6.4 arch=70 mask=warp
mma sync aligned ~MATRIX:m16n8k8 ~MATRIX:row ~MATRIX:col ~MATRIX:f16|f32 ~MATRIX:f16 ~MATRIX:f16 ~MATRIX:f16|f32 ; v v v v ; ptx=6.5 arch=75 mask=warp
mma sync aligned ~MATRIX:m16n8k16 ~MATRIX:row ~MATRIX:col ~MATRIX:f16|f32 ~MATRIX:f16 ~MATRIX:f16 ~MATRIX:f16|f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k4 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:tf32 ~MATRIX:tf32 ~MATRIX:f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k8 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:bf16 ~MATRIX:bf16 ~MATRIX:f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k8 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:tf32 ~MATRIX:tf32 ~MATRIX:f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k16 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:bf16 ~MATRIX:bf16 ~MATRIX:f32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k32 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:F8 ~MATRIX:F8 ~MATRIX:f32 ; v v v v ; ptx=8.4 arch=89 mask=warp
mma sync aligned ~MATRIX:m16n8k16 ~MATRIX:row ~MATRIX:col ~MATRIX:f16|f32 ~MATRIX:F8 ~MATRIX:F8 ~MATRIX:f16|f32 ; v v v v ; ptx=8.7 arch=89 mask=warp
mma sync aligned ~MATRIX:m16n8k32 ~MATRIX:row ~MATRIX:col ~MATRIX:f16 ~MATRIX:F8 ~MATRIX:F8 ~MATRIX:f16 ; v v v v ; ptx=8.7 arch=89 mask=warp
mma sync aligned ~MATRIX:m16n8k32 ~MATRIX:row ~MATRIX:col ~KIND:kind::f8f6f4 ~MATRIX:f16|f32 ~MATRIX:F8F6F4 ~MATRIX:F8F6F4 ~MATRIX:f16|f32 ; v v v v ; ptx=8.7 arch=120f mask=warp
mma sync aligned ~MATRIX:m16n8k64 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf4 ~KIND:block_scale ~KIND:scale_vec::2X? ~MATRIX:f32 ~MATRIX:e2m1 ~MATRIX:e2m1 ~MATRIX:f32 ~MATRIX:ue8m0 ; v v v v r:b32 v r:b32 v ; ptx=8.7 arch=120f mask=warp
mma sync aligned ~MATRIX:m16n8k64 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf4nvf4 ~KIND:block_scale ~KIND:scale_vec::2X ~MATRIX:f32 ~MATRIX:e2m1 ~MATRIX:e2m1 ~MATRIX:f32 ~MATRIX:ue8m0 ; v v v v r:b32 v r:b32 v ; ptx=8.7 arch=120f mask=warp
mma sync aligned ~MATRIX:m16n8k64 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf4nvf4 ~KIND:block_scale ~KIND:scale_vec::4X ~MATRIX:f32 ~MATRIX:e2m1 ~MATRIX:e2m1 ~MATRIX:f32 ~MATRIX:ue8m0|ue4m3 ; v v v v r:b32 v r:b32 v ; ptx=8.7 arch=120f mask=warp
mma sync aligned ~MATRIX:m16n8k32 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf8f6f4 ~KIND:block_scale ~KIND:scale_vec::1X? ~MATRIX:f32 ~MATRIX:F8F6F4 ~MATRIX:F8F6F4 ~MATRIX:f32 ~MATRIX:ue8m0 ; v v v v r:b32 v r:b32 v ; ptx=8.7 arch=120f mask=warp
mma sync aligned ~MATRIX:m8n8k4 ~MATRIX:row ~MATRIX:col ~RND? ~MATRIX:f64 ~MATRIX:f64 ~MATRIX:f64 ~MATRIX:f64 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k4|m16n8k8|m16n8k16 ~MATRIX:row ~MATRIX:col ~RND? ~MATRIX:f64 ~MATRIX:f64 ~MATRIX:f64 ~MATRIX:f64 ; v v v v ; ptx=7.8 arch=90 mask=warp
mma sync aligned ~MATRIX:m8n8k16 ~MATRIX:row ~MATRIX:col ~satfinite? ~MATRIX:s32 ~MATRIX:u8|s8 ~MATRIX:u8|s8 ~MATRIX:s32 ; v v v v ; ptx=6.5 arch=75 mask=warp
mma sync aligned ~MATRIX:m16n8k16|m16n8k32 ~MATRIX:row ~MATRIX:col ~satfinite? ~MATRIX:s32 ~MATRIX:u8|s8 ~MATRIX:u8|s8 ~MATRIX:s32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m8n8k32 ~MATRIX:row ~MATRIX:col ~satfinite? ~MATRIX:s32 ~MATRIX:u4|s4 ~MATRIX:u4|s4 ~MATRIX:s32 ; v v v v ; ptx=6.5 arch=75 mask=warp
mma sync aligned ~MATRIX:m16n8k32|m16n8k64 ~MATRIX:row ~MATRIX:col ~satfinite? ~MATRIX:s32 ~MATRIX:u4|s4 ~MATRIX:u4|s4 ~MATRIX:s32 ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m8n8k128 ~MATRIX:row ~MATRIX:col ~MATRIX:s32 ~MATRIX:b1 ~MATRIX:b1 ~MATRIX:s32 ~MATRIX:xor ~MATRIX:popc ; v v v v ; ptx=7.0 arch=75 mask=warp
mma sync aligned ~MATRIX:m8n8k128 ~MATRIX:row ~MATRIX:col ~MATRIX:s32 ~MATRIX:b1 ~MATRIX:b1 ~MATRIX:s32 ~MATRIX:and ~MATRIX:popc ; v v v v ; ptx=7.1 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k128|m16n8k256 ~MATRIX:row ~MATRIX:col ~MATRIX:s32 ~MATRIX:b1 ~MATRIX:b1 ~MATRIX:s32 ~MATRIX:xor ~MATRIX:popc ; v v v v ; ptx=7.0 arch=80 mask=warp
mma sync aligned ~MATRIX:m16n8k128|m16n8k256 ~MATRIX:row ~MATRIX:col ~MATRIX:s32 ~MATRIX:b1 ~MATRIX:b1 ~MATRIX:s32 ~MATRIX:and ~MATRIX:popc ; v v v v ; ptx=7.1 arch=80 mask=warp
mma ~KIND:sp|sp::ordered_metadata sync aligned ~MATRIX:m16n8k16|m16n8k32 ~MATRIX:row ~MATRIX:col ~MATRIX:f16|f32 ~MATRIX:f16 ~MATRIX:f16 ~MATRIX:f16|f32 ; v v v v r:b32 i ; ptx=7.1 arch=80 mask=warp
mma ~KIND:sp|sp::ordered_metadata sync aligned ~MATRIX:m16n8k16|m16n8k32 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:bf16 ~MATRIX:bf16 ~MATRIX:f32 ; v v v v r:b32 i ; ptx=7.1 arch=80 mask=warp
mma ~KIND:sp|sp::ordered_metadata sync aligned ~MATRIX:m16n8k8|m16n8k16 ~MATRIX:row ~MATRIX:col ~MATRIX:f32 ~MATRIX:tf32 ~MATRIX:tf32 ~MATRIX:f32 ; v v v v r:b32 i ; ptx=7.1 arch=80 mask=warp
mma ~KIND:sp|sp::ordered_metadata sync aligned ~MATRIX:m16n8k64 ~MATRIX:row ~MATRIX:col ~MATRIX:f32|f16 ~MATRIX:F8 ~MATRIX:F8 ~MATRIX:f32|f16 ; v v v v r:b32 i ; ptx=8.4 arch=89 mask=warp
mma ~KIND:sp|sp::ordered_metadata sync aligned ~MATRIX:m16n8k32|m16n8k64 ~MATRIX:row ~MATRIX:col ~satfinite? ~MATRIX:s32 ~MATRIX:u8|s8 ~MATRIX:u8|s8 ~MATRIX:s32 ; v v v v r:b32 i ; ptx=7.1 arch=80 mask=warp
mma ~KIND:sp|sp::ordered_metadata sync aligned ~MATRIX:m16n8k64|m16n8k128 ~MATRIX:row ~MATRIX:col ~satfinite? ~MATRIX:s32 ~MATRIX:u4|s4 ~MATRIX:u4|s4 ~MATRIX:s32 ; v v v v r:b32 i ; ptx=7.1 arch=80 mask=warp
mma ~KIND:sp::ordered_metadata sync aligned ~MATRIX:m16n8k64 ~MATRIX:row ~MATRIX:col ~KIND:kind::f8f6f4 ~MATRIX:f32|f16 ~MATRIX:F8F6F4 ~MATRIX:F8F6F4 ~MATRIX:f32|f16 ; v v v v r:b32 i ; ptx=8.7 arch=120f mask=warp
mma ~KIND:sp::ordered_metadata sync aligned ~MATRIX:m16n8k128 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf4 ~KIND:block_scale ~KIND:scale_vec::2X? ~MATRIX:f32 ~MATRIX:e2m1 ~MATRIX:e2m1 ~MATRIX:f32 ~MATRIX:ue8m0 ; v v v v r:b32 i r:b32 v r:b32 v ; ptx=8.7 arch=120a,121a mask=warp
mma ~KIND:sp::ordered_metadata sync aligned ~MATRIX:m16n8k128 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf4nvf4 ~KIND:block_scale ~KIND:scale_vec::2X ~MATRIX:f32 ~MATRIX:e2m1 ~MATRIX:e2m1 ~MATRIX:f32 ~MATRIX:ue8m0 ; v v v v r:b32 i r:b32 v r:b32 v ; ptx=8.7 arch=120a,121a mask=warp
mma ~KIND:sp::ordered_metadata sync aligned ~MATRIX:m16n8k128 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf4nvf4 ~KIND:block_scale ~KIND:scale_vec::4X ~MATRIX:f32 ~MATRIX:e2m1 ~MATRIX:e2m1 ~MATRIX:f32 ~MATRIX:ue8m0|ue4m3 ; v v v v r:b32 i r:b32 v r:b32 v ; ptx=8.7 arch=120a,121a mask=warp
mma ~KIND:sp::ordered_metadata sync aligned ~MATRIX:m16n8k64 ~MATRIX:row ~MATRIX:col ~KIND:kind::mxf8f6f4 ~KIND:block_scale ~KIND:scale_vec::1X? ~MATRIX:f32 ~MATRIX:F8F6F4 ~MATRIX:F8F6F4 ~MATRIX:f32 ~MATRIX:ue8m0 ; v v v v r:b32 i r:b32 v r:b32 v ; ptx=8.7 arch=120f mask=warp
movmatrix sync aligned ~MATRIX:m8n8 trans b16 ; d:b32 r:b32 ; ptx=7.8 arch=75 mask=warp

@effect matrix read
ldmatrix sync aligned SHAPE:m8n8 NUM:x1|x2|x4 trans? SPACE:SHARED? b16 ; v a ; ptx=6.5 arch=75 mask=warp
ldmatrix sync aligned !WIDE:m16n16 NUM:x1|x2 trans SPACE:SHARED? b8 ; v a ; ptx=8.6 arch=100f,110f,120f mask=warp
ldmatrix sync aligned !WIDE:m8n16 NUM:x1|x2|x4 SPACE:SHARED? FORMAT:b8x16 SOURCE:b6x16_p32|b4x16_p64 ; v a ; ptx=8.6 arch=100f,110f,120f mask=warp
ldmatrix sync aligned !WIDE:m16n16 NUM:x1|x2 trans SPACE:SHARED? FORMAT:b8x16 SOURCE:b6x16_p32|b4x16_p64 ; v a ; ptx=8.6 arch=100f,110f,120f mask=warp
ldmatrix sync aligned !WIDE:m8n16 NUM:x1|x2|x4 SPACE:SHARED? FORMAT:s8 SOURCE:s4 ; v a ; ptx=9.4 arch=90a,100f,110f,120f mask=warp
@effect matrix write
stmatrix sync aligned SHAPE:m8n8 NUM:x1|x2|x4 trans? SPACE:SHARED? b16 ; a v ; ptx=7.8 arch=90 mask=warp
stmatrix sync aligned !WIDE:m16n8 NUM:x1|x2|x4 trans SPACE:SHARED? b8 ; a v ; ptx=8.6 arch=100f,110f,120f mask=warp

@chapter Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions
@effect matrix
{_wgmma()}
wgmma.fence sync aligned ; ; ptx=8.0 arch=90a mask=warpgroup
wgmma.commit_group sync aligned ; ; ptx=8.0 arch=90a mask=warpgroup
wgmma.wait_group sync aligned ; i ; ptx=8.0 arch=90a mask=warpgroup
"""
