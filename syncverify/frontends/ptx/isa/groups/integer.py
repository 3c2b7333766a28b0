"""Integer arithmetic, logic and shifts, comparison and selection."""

ROWS = """
@chapter Integer Arithmetic Instructions
@effect register
add T:INT ; d:T s:T s:T
add T:u16x2|s16x2 ; d:T s:T s:T ; ptx=8.0 arch=90
add T:u8x4|s8x4 ; d:T s:T s:T ; ptx=9.2 arch=120f
add sat T:s32 ; d:T s:T s:T
add sat T:u32|u16x2|s16x2 ; d:T s:T s:T ; ptx=9.2 arch=120f
sub T:INT ; d:T s:T s:T
sub T:u8x4|s8x4 ; d:T s:T s:T ; ptx=9.2 arch=120f
sub sat T:s32 ; d:T s:T s:T
mul.lo T:INT ; d:T s:T s:T
mul.hi T:INT ; d:T s:T s:T
mul.wide T:u16|s16|u32|s32 ; d:2T s:T s:T
mad.lo T:INT ; d:T s:T s:T s:T
mad.hi T:INT ; d:T s:T s:T s:T
mad.wide T:u16|s16|u32|s32 ; d:2T s:T s:T s:2T
mad.hi sat T:s32 ; d:T s:T s:T s:T
mul24.lo T:u32|s32 ; d:T s:T s:T
mul24.hi T:u32|s32 ; d:T s:T s:T
mad24.lo T:u32|s32 ; d:T s:T s:T s:T
mad24.hi T:u32|s32 ; d:T s:T s:T s:T
mad24.hi sat T:s32 ; d:T s:T s:T s:T
sad T:INT ; d:T s:T s:T s:T
div T:INT ; d:T s:T s:T
rem T:INT ; d:T s:T s:T
abs T:s16|s32|s64 ; d:T s:T
neg T:s16|s32|s64 ; d:T s:T
neg T:s8x4 ; d:T s:T ; ptx=9.2 arch=120f
min T:INT ; d:T s:T s:T
min T:u16x2|s16x2 ; d:T s:T s:T ; ptx=8.0 arch=90
min T:u8x4|s8x4 ; d:T s:T s:T ; ptx=9.2 arch=120f
min relu T:s32|s16x2 ; d:T s:T s:T ; ptx=8.0 arch=90
max T:INT ; d:T s:T s:T
max T:u16x2|s16x2 ; d:T s:T s:T ; ptx=8.0 arch=90
max T:u8x4|s8x4 ; d:T s:T s:T ; ptx=9.2 arch=120f
max relu T:s32|s16x2 ; d:T s:T s:T ; ptx=8.0 arch=90
popc T:BITS2 ; d:u32 s:T
clz T:BITS2 ; d:u32 s:T
bfind T:INT32 ; d:u32 s:T
bfind.shiftamt T:INT32 ; d:u32 s:T
fns T:b32 ; d:b32 s:b32 s:b32 s:s32 ; ptx=6.0
brev T:BITS2 ; d:T s:T
bfe T:INT32 ; d:T s:T s:u32 s:u32
bfi T:BITS2 ; d:T s:T s:T s:u32 s:u32
szext.clamp T:u32|s32 ; d:T s:T s:u32 ; ptx=7.6 arch=70
szext.wrap T:u32|s32 ; d:T s:T s:u32 ; ptx=7.6 arch=70
bmsk.clamp T:b32 ; d:u32 s:u32 s:u32 ; ptx=7.6 arch=70
bmsk.wrap T:b32 ; d:u32 s:u32 s:u32 ; ptx=7.6 arch=70
dp4a A:u32|s32 B:u32|s32 ; d:u32 s:A s:B s:u32 ; ptx=5.0
dp2a.lo A:u32|s32 B:u32|s32 ; d:u32 s:A s:B s:u32 ; ptx=5.0
dp2a.hi A:u32|s32 B:u32|s32 ; d:u32 s:A s:B s:u32 ; ptx=5.0
clmad.lo T:u64 ; d:T s:T s:T s:T ; ptx=9.3
clmad.hi T:u64 ; d:T s:T s:T s:T ; ptx=9.3

@chapter Extended-Precision Integer Arithmetic Instructions
add.cc T:INT32 ; d:T s:T s:T
addc cc? T:INT32 ; d:T s:T s:T
sub.cc T:INT32 ; d:T s:T s:T
subc cc? T:INT32 ; d:T s:T s:T
mad.lo.cc T:INT32 ; d:T s:T s:T s:T
mad.hi.cc T:INT32 ; d:T s:T s:T s:T
madc.lo cc? T:INT32 ; d:T s:T s:T s:T
madc.hi cc? T:INT32 ; d:T s:T s:T s:T

@chapter Comparison and Selection Instructions
set CMP:CMP_U D:u32|s32|f32 T:u16|u32|u64 ; d:D s:T s:T
set CMP:CMP_S D:u32|s32|f32 T:s16|s32|s64 ; d:D s:T s:T
set CMP:eq|ne D:u32|s32|f32 T:b16|b32|b64 ; d:D s:T s:T
set CMP:CMP_F ~ftz? D:u32|s32|f32 T:f32 ; d:D s:T s:T
set CMP:CMP_F D:u32|s32|f32 T:f64 ; d:D s:T s:T
set CMP:CMP_U BOOL D:u32|s32|f32 T:u16|u32|u64 ; d:D s:T s:T q
set CMP:CMP_S BOOL D:u32|s32|f32 T:s16|s32|s64 ; d:D s:T s:T q
set CMP:eq|ne BOOL D:u32|s32|f32 T:b16|b32|b64 ; d:D s:T s:T q
set CMP:CMP_F BOOL ~ftz? D:u32|s32|f32 T:f32 ; d:D s:T s:T q
set CMP:CMP_F BOOL D:u32|s32|f32 T:f64 ; d:D s:T s:T q
set CMP:eq|ne D:f16 T:b16|b32|b64 ; d:D s:T s:T ; ptx=4.2
set CMP:CMP_U D:f16 T:u16|u32|u64 ; d:D s:T s:T ; ptx=4.2
set CMP:CMP_S D:f16 T:s16|s32|s64 ; d:D s:T s:T ; ptx=4.2
set CMP:CMP_F ~ftz? D:f16 T:f16|f32|f64 ; d:D s:T s:T ; ptx=4.2
set CMP:eq|ne BOOL D:f16 T:b16|b32|b64 ; d:D s:T s:T q ; ptx=4.2
set CMP:CMP_U BOOL D:f16 T:u16|u32|u64 ; d:D s:T s:T q ; ptx=4.2
set CMP:CMP_S BOOL D:f16 T:s16|s32|s64 ; d:D s:T s:T q ; ptx=4.2
set CMP:CMP_F BOOL ~ftz? D:f16 T:f16|f32|f64 ; d:D s:T s:T q ; ptx=4.2
set CMP:eq|ne D:bf16 T:b16|b32|b64 ; d:D s:T s:T ; ptx=7.8 arch=90
set CMP:CMP_U D:bf16 T:u16|u32|u64 ; d:D s:T s:T ; ptx=7.8 arch=90
set CMP:CMP_S D:bf16 T:s16|s32|s64 ; d:D s:T s:T ; ptx=7.8 arch=90
set CMP:CMP_F D:bf16 T:f16|bf16|f32|f64 ; d:D s:T s:T ; ptx=7.8 arch=90
set CMP:eq|ne BOOL D:bf16 T:b16|b32|b64 ; d:D s:T s:T Q ; ptx=7.8 arch=90
set CMP:CMP_U BOOL D:bf16 T:u16|u32|u64 ; d:D s:T s:T Q ; ptx=7.8 arch=90
set CMP:CMP_S BOOL D:bf16 T:s16|s32|s64 ; d:D s:T s:T Q ; ptx=7.8 arch=90
set CMP:CMP_F BOOL D:bf16 T:f16|bf16|f32|f64 ; d:D s:T s:T Q ; ptx=7.8 arch=90
set CMP:CMP_F ~ftz? D:u16|s16|u32|s32 T:f16 ; d:D s:T s:T ; ptx=4.2
set CMP:CMP_F BOOL ~ftz? D:u16|s16|u32|s32 T:f16 ; d:D s:T s:T q ; ptx=4.2
set CMP:CMP_F D:u16|s16|u32|s32 T:bf16 ; d:D s:T s:T ; ptx=7.8 arch=90
set CMP:CMP_F BOOL D:u16|s16|u32|s32 T:bf16 ; d:D s:T s:T Q ; ptx=7.8 arch=90
set CMP:CMP_F ~ftz? D:f16x2|u32|s32 T:f16x2 ; d:D s:T s:T ; ptx=4.2
set CMP:CMP_F BOOL ~ftz? D:f16x2|u32|s32 T:f16x2 ; d:D s:T s:T q ; ptx=4.2
set CMP:CMP_F D:bf16x2|u32|s32 T:bf16x2 ; d:D s:T s:T ; ptx=7.8 arch=90
set CMP:CMP_F BOOL D:bf16x2|u32|s32 T:bf16x2 ; d:D s:T s:T Q ; ptx=7.8 arch=90
setp CMP:CMP_U T:u16|u32|u64 ; P s:T s:T
setp CMP:CMP_S T:s16|s32|s64 ; P s:T s:T
setp CMP:eq|ne T:b16|b32|b64 ; P s:T s:T
setp CMP:CMP_F ~ftz? T:f32 ; P s:T s:T
setp CMP:CMP_F T:f64 ; P s:T s:T
setp CMP:CMP_U BOOL T:u16|u32|u64 ; P s:T s:T q
setp CMP:CMP_S BOOL T:s16|s32|s64 ; P s:T s:T q
setp CMP:eq|ne BOOL T:b16|b32|b64 ; P s:T s:T q
setp CMP:CMP_F BOOL ~ftz? T:f32 ; P s:T s:T q
setp CMP:CMP_F BOOL T:f64 ; P s:T s:T q
setp CMP:CMP_F ~ftz? T:f16 ; o s:T s:T ; ptx=4.2
setp CMP:CMP_F ~ftz? T:f16x2 ; P s:T s:T ; ptx=4.2
setp CMP:CMP_F BOOL ~ftz? T:f16 ; o s:T s:T q ; ptx=4.2
setp CMP:CMP_F BOOL ~ftz? T:f16x2 ; P s:T s:T q ; ptx=4.2
setp CMP:CMP_F T:bf16 ; o s:T s:T ; ptx=7.8 arch=90
setp CMP:CMP_F T:bf16x2 ; P s:T s:T ; ptx=7.8 arch=90
setp CMP:CMP_F BOOL T:bf16 ; o s:T s:T Q ; ptx=7.8 arch=90
setp CMP:CMP_F BOOL T:bf16x2 ; P s:T s:T Q ; ptx=7.8 arch=90
selp T:MOVED ; d:T s:T s:T q
slct D:MOVED S:s32 ; d:D s:D s:D s:s32
slct ~ftz? D:MOVED S:f32 ; d:D s:D s:D s:f32

@chapter Logic and Shift Instructions
and T:b16|b32|b64 ; d:T s:T s:T
and T:pred ; p q q
or T:b16|b32|b64 ; d:T s:T s:T
or T:pred ; p q q
xor T:b16|b32|b64 ; d:T s:T s:T
xor T:pred ; p q q
not T:b16|b32|b64 ; d:T s:T
not T:pred ; p q
cnot T:b16|b32|b64 ; d:T s:T
lop3 T:b32 ; d:T s:T s:T s:T i ; ptx=4.3
lop3.and T:b32 ; E:b32 s:T s:T s:T i q ; ptx=8.2 arch=70
lop3.or T:b32 ; E:b32 s:T s:T s:T i q ; ptx=8.2 arch=70
shf.l MODE:clamp|wrap T:b32 ; d:T s:T s:T s:u32
shf.r MODE:clamp|wrap T:b32 ; d:T s:T s:T s:u32
shl T:b16|b32|b64 ; d:T s:T s:u32
shr T:b16|b32|b64|u16|u32|u64|s16|s32|s64 ; d:T s:T s:u32

@chapter Video Instructions
vadd D:u32|s32 A:u32|s32 B:u32|s32 sat? ~VIDEO:add|min|max? ; *
vsub D:u32|s32 A:u32|s32 B:u32|s32 sat? ~VIDEO:add|min|max? ; *
vabsdiff D:u32|s32 A:u32|s32 B:u32|s32 sat? ~VIDEO:add|min|max? ; *
vmin D:u32|s32 A:u32|s32 B:u32|s32 sat? ~VIDEO:add|min|max? ; *
vmax D:u32|s32 A:u32|s32 B:u32|s32 sat? ~VIDEO:add|min|max? ; *
vshl D:u32|s32 A:u32|s32 B:u32 sat? MODE:clamp|wrap ~VIDEO:add|min|max? ; *
vshr D:u32|s32 A:u32|s32 B:u32 sat? MODE:clamp|wrap ~VIDEO:add|min|max? ; *
vmad D:u32|s32 A:u32|s32 B:u32|s32 po? sat? ~VIDEO:shr7|shr15? ; *
vset A:u32|s32 B:u32|s32 CMP:CMP_S ~VIDEO:add|min|max? ; *
vadd2 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vsub2 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vavrg2 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vabsdiff2 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vmin2 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vmax2 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vset2 A:u32|s32 B:u32|s32 CMP:CMP_S ~VIDEO:add? ; * ; arch=30
vadd4 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vsub4 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vavrg4 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vabsdiff4 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vmin4 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vmax4 D:u32|s32 A:u32|s32 B:u32|s32 ~VIDEO:sat|add? ; * ; arch=30
vset4 A:u32|s32 B:u32|s32 CMP:CMP_S ~VIDEO:add? ; * ; arch=30
"""
