"""Moves and conversions between registers, and addresses."""

ROWS = """
@chapter Data Movement and Conversion Instructions
@effect register
mov T:MOVED ; d:T M:T
mov T:pred ; p q
mov T:b16|b32|b64 ; d:T v
mov T:b16|b32|b64 ; v s:T
mov T:b128 ; d:T v ; ptx=8.3 arch=70
mov T:b128 ; v s:T ; ptx=8.3 arch=70
mov T:b128 ; d:T s:T ; ptx=8.3 arch=70
prmt T:b32 MODE:f4e|b4e|rc8|ecl|ecr|rc16? ; d:T s:T s:T s:T
isspacep SPACE:const|global|local|shared ; p s:a
isspacep SPACE:param|param::entry ; p s:a ; ptx=7.7 arch=70
isspacep SPACE:shared::cta|shared::cluster ; p s:a ; ptx=7.8
cvta SPACE:SPACE_CVTA T:u32|u64 ; d:T m:T
cvta.to SPACE:SPACE_CVTA T:u32|u64 ; d:T s:T
cvt D:CONVERTED S:CONVERTED ; d~:D x~:S
cvt sat D:CONVERTED S:CONVERTED ; d~:D x~:S
cvt ~IRND ~ftz? ~sat? D:CONVERTED S:f32 ; d~:D s~:S
cvt ~IRND ~sat? D:CONVERTED S:f16|f64 ; d~:D s~:S
cvt ~IRND D:CONVERTED S:bf16 ; d:D s:S ; ptx=7.8 arch=90
cvt ~RND ~sat? D:f16|f32|f64 S:CONVERTED ; d~:D s~:S
cvt ~RND D:bf16 S:CONVERTED ; d:D s:S ; ptx=7.8 arch=90
cvt ~IRND? ~sat? D:f16 S:f16 ; d~:D s~:S
cvt ~IRND? ~ftz? ~sat? D:f32 S:f32 ; d~:D s~:S
cvt ~IRND? ~sat? D:f64 S:f64 ; d~:D s~:S
cvt ~IRND? D:bf16 S:bf16 ; d:D s:S ; ptx=7.8 arch=90
cvt ~RND ~ftz? ~sat? D:f16 S:f32 ; d~:D s~:S
cvt ~RND ~sat? D:f16 S:f64 ; d~:D s~:S
cvt ~RND ~ftz? ~sat? D:f32 S:f64 ; d~:D s~:S
cvt ~ftz? ~sat? D:f32 S:f16 ; d~:D s~:S
cvt ~sat? D:f64 S:f16 ; d~:D s~:S
cvt ~ftz? ~sat? D:f64 S:f32 ; d~:D s~:S
cvt ~ftz? ~sat? D:f32 S:bf16 ; d:D s:S ; ptx=7.1 arch=80
cvt D:f64 S:bf16 ; d:D s:S ; ptx=7.8 arch=90
cvt ~RND D:f16 S:bf16 ; d:D s:S ; ptx=7.8 arch=90
cvt ~RND D:bf16 S:f16|f64 ; d:D s:S ; ptx=7.8 arch=90
cvt ~ROUND:rn|rz ~relu? ~satfinite? D:f16 S:f32 ; d~:D s~:S ; ptx=7.0 arch=80
cvt ~ROUND:rn|rz ~relu? ~satfinite? D:f16x2 S:f32 ; d~:D s~:S s~:S ; ptx=7.0 arch=80
cvt ~ROUND:rn|rz|rm|rp ~relu? ~satfinite? D:bf16 S:f32 ; d:D s:S ; ptx=7.0 arch=80
cvt ~ROUND:rn|rz ~relu? ~satfinite? D:bf16x2 S:f32 ; d:D s:S s:S ; ptx=7.0 arch=80
cvt ~ROUND:rs ~relu? ~satfinite? D:f16x2|bf16x2 S:f32 ; d:D s:S s:S r:b32x1 ; ptx=8.7 arch=100a,103a
cvt ~ROUND:rna ~satfinite? D:tf32 S:f32 ; d:b32x1 s:S ; ptx=7.0 arch=80
cvt ~ROUND:rn|rz ~satfinite? ~relu? D:tf32 S:f32 ; d:b32x1 s:S ; ptx=7.8 arch=90
cvt ~ROUND:rn ~satfinite ~relu? D:e4m3x2|e5m2x2 S:f32 ; d:b16x1 s:S s:S ; ptx=7.8 arch=89
cvt ~ROUND:rn ~satfinite ~relu? D:e4m3x2|e5m2x2 S:f16x2 ; d:b16x1 s:S ; ptx=7.8 arch=89
cvt ~ROUND:rn ~satfinite ~relu? D:e4m3x2|e5m2x2 S:bf16x2 ; d:b16x1 s:b32x1 ; ptx=9.1 arch=100f,110f,120f
cvt ~ROUND:rn ~relu? D:f16x2 S:e4m3x2|e5m2x2 ; d:D s:b16x1 ; ptx=7.8 arch=89
cvt ~ROUND:rn ~satfinite? ~relu? D:bf16x2 S:e4m3x2|e5m2x2 ; d:b32x1 s:b16x1 ; ptx=9.2 arch=100f,110f,120f
cvt ~ROUND:rs ~relu? ~satfinite D:e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4 S:f32 ; * ; ptx=8.7 arch=100a,103a
cvt ~ROUND:rn ~satfinite ~relu? D:e2m1x2 S:f32 ; d:b8 s:S s:S ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rn ~satfinite ~relu? D:e2m1x2 S:f16x2|bf16x2 ; d:b8 s:S ; ptx=9.1 arch=100f,110f,120f
cvt ~ROUND:rn ~relu? D:f16x2 S:e2m1x2 ; d:D s:b8 ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rn ~satfinite? ~relu? D:bf16x2 S:e2m1x2 ; d:b32x1 s:b8 ; ptx=9.2 arch=100f,110f,120f
cvt ~ROUND:rn ~satfinite ~relu? D:e2m3x2|e3m2x2 S:f32 ; d:b16x1 s:S s:S ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rn ~satfinite ~relu? D:e2m3x2|e3m2x2 S:f16x2|bf16x2 ; d:b16x1 s:S ; ptx=9.1 arch=100f,110f,120f
cvt ~ROUND:rn ~relu? D:f16x2 S:e2m3x2|e3m2x2 ; d:D s:b16x1 ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rn ~satfinite? ~relu? D:bf16x2 S:e2m3x2|e3m2x2 ; d:b32x1 s:b16x1 ; ptx=9.2 arch=100f,110f,120f
cvt ~ROUND:rz|rp ~satfinite? D:ue8m0x2 S:f32 ; d:b16x1 s:S s:S ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rz|rp ~satfinite? D:ue8m0x2 S:bf16x2 ; d:b16x1 s:b32x1 ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rn D:bf16x2 S:ue8m0x2 ; d:b32x1 s:b16x1 ; ptx=8.6 arch=100f,110f,120f
cvt ~ROUND:rn ~satfinite? ~relu? ~scaled:scaled::n2::ue8m0? D:s2f6x2 S:f32|bf16x2 ; * ; ptx=9.1 arch=100a,103a,110a,120a,121a
cvt ~ROUND:rn ~satfinite? ~relu? ~scaled:scaled::n2::ue8m0? D:bf16x2 S:s2f6x2 ; * ; ptx=9.1 arch=100a,103a,110a,120a,121a
cvt.pack ~sat D:u16|s16 S:s32 ; d~:S s~:S s~:S ; ptx=6.5 arch=72
cvt.pack ~sat D:u2|s2|u4|s4 S:s32 C:b32 ; d~:S s~:S s~:S s~:C ; ptx=6.5 arch=75
cvt.pack ~sat D:u8|s8 S:s32 C:b32 ; d~:S s~:S s~:S s~:C ; ptx=6.5 arch=72
mapa SPACE:shared::cluster? T:u32|u64 ; d:T m:T s:u32 ; ptx=7.8 arch=90
getctarank SPACE:shared::cluster? T:u32|u64 ; d:u32 m:T ; ptx=7.8 arch=90
createpolicy.range ~cta:global? ~EVICT:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged ~EVICT:L2::evict_first|L2::evict_unchanged? b64 ; d:u64 a s:b32 s:b32 ; ptx=7.4 arch=80
createpolicy.fractional ~EVICT:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged ~EVICT:L2::evict_first|L2::evict_unchanged? b64 ; d:u64 s:f32? ; ptx=7.4 arch=80
createpolicy.cvt L2 b64 ; d:u64 s:u64 ; ptx=7.4 arch=80
"""
