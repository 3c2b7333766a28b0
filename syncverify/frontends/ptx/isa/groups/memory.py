"""Loads, stores and atomics."""

ROWS = """
@chapter Data Movement and Conversion Instructions
@effect memory read
ld ~weak? SPACE:SPACE_LD? ~COP_LD? ~HINT? ~PREFETCH? VEC:v2|v4? T:SIZED ; L~:T a h
ld ~weak? SPACE:SPACE_LD? ~EVICT_L1? ~HINT? ~PREFETCH? VEC:v2|v4? T:SIZED ; L~:T a h ; ptx=7.4
ld ~weak? SPACE:global? ~EVICT_L1? ~EVICT_L2? ~HINT? ~PREFETCH? VEC:v8 T:b32|u32|s32|f32 ; L~:T a h ; ptx=8.8 arch=100
ld ~weak? SPACE:global? ~EVICT_L1? ~EVICT_L2? ~HINT? ~PREFETCH? VEC:v4 T:b64|u64|s64|f64 ; L~:T a h ; ptx=8.8 arch=100
ld ~weak? SPACE:SPACE_LD? ~COP_LD? ~EVICT_L1? ~HINT? ~PREFETCH? T:b128 ; d:T a h ; ptx=8.3 arch=70
ld SEM:volatile SPACE:global|local|shared|shared::cta|shared::cluster? ~PREFETCH? VEC:v2|v4? T:SIZED ; L~:T a
ld SEM:volatile SPACE:global|local|shared|shared::cta|shared::cluster? ~PREFETCH? T:b128 ; d:T a ; ptx=8.3 arch=70
ld SEM:relaxed|acquire SCOPE SPACE:SPACE_SYNC? ~EVICT_L1? ~HINT? ~PREFETCH? VEC:v2|v4? T:SIZED ; L~:T a h ; ptx=6.0 arch=70
ld SEM:relaxed|acquire SCOPE SPACE:global? ~EVICT_L1? ~EVICT_L2? ~HINT? ~PREFETCH? VEC:v8 T:b32|u32|s32|f32 ; L~:T a h ; ptx=8.8 arch=100
ld SEM:relaxed|acquire SCOPE SPACE:SPACE_SYNC? ~EVICT_L1? ~HINT? ~PREFETCH? T:b128 ; d:T a h ; ptx=8.3 arch=70
ld ~mmio SEM:relaxed SCOPE:sys SPACE:global? T:SIZED ; L~:T a ; ptx=8.2 arch=70
ld SPACE:global ~nc ~COP_NC? ~HINT? ~PREFETCH? VEC:v2|v4? T:SIZED ; L~:T a h
ld SPACE:global ~nc ~EVICT_L1? ~HINT? ~PREFETCH? VEC:v2|v4? T:SIZED ; L~:T a h ; ptx=7.4 arch=70
ld SPACE:global ~nc ~EVICT_L1? ~EVICT_L2? ~HINT? ~PREFETCH? VEC:v8 T:b32|u32|s32|f32 ; L~:T a h ; ptx=8.8 arch=100
ld SPACE:global ~nc ~COP_NC? ~EVICT_L1? ~HINT? ~PREFETCH? T:b128 ; d:T a h ; ptx=8.3 arch=70
ldu SPACE:global? VEC:v2|v4? T:SIZED ; L~:T a
ldu SPACE:global? T:b128 ; d:T a ; ptx=8.3 arch=70

@effect memory write
st ~weak? SPACE:SPACE_ST? ~COP_ST? ~HINT? VEC:v2|v4? T:SIZED ; a S~:T h
st ~weak? SPACE:SPACE_ST? ~EVICT_L1? ~HINT? VEC:v2|v4? T:SIZED ; a S~:T h ; ptx=7.4
st ~weak? SPACE:global? ~EVICT_L1? ~EVICT_L2? ~HINT? VEC:v8 T:b32|u32|s32|f32 ; a S~:T h ; ptx=8.8 arch=100
st ~weak? SPACE:global? ~EVICT_L1? ~EVICT_L2? ~HINT? VEC:v4 T:b64|u64|s64|f64 ; a S~:T h ; ptx=8.8 arch=100
st ~weak? SPACE:SPACE_ST? ~COP_ST? ~EVICT_L1? ~HINT? T:b128 ; a s:T h ; ptx=8.3 arch=70
st SEM:volatile SPACE:global|local|shared|shared::cta|shared::cluster? VEC:v2|v4? T:SIZED ; a S~:T
st SEM:volatile SPACE:global|local|shared|shared::cta|shared::cluster? T:b128 ; a s:T ; ptx=8.3 arch=70
st SEM:relaxed|release SCOPE SPACE:SPACE_SYNC? ~EVICT_L1? ~HINT? VEC:v2|v4? T:SIZED ; a S~:T h ; ptx=6.0 arch=70
st SEM:relaxed|release SCOPE SPACE:global? ~EVICT_L1? ~EVICT_L2? ~HINT? VEC:v8 T:b32|u32|s32|f32 ; a S~:T h ; ptx=8.8 arch=100
st SEM:relaxed|release SCOPE SPACE:SPACE_SYNC? ~EVICT_L1? ~HINT? T:b128 ; a s:T h ; ptx=8.3 arch=70
st ~mmio SEM:relaxed SCOPE:sys SPACE:global? T:SIZED ; a S~:T ; ptx=8.2 arch=70
st.bulk ~weak? SPACE:shared::cta? ; a s:a i ; ptx=8.6 arch=100

@chapter Parallel Synchronization and Communication Instructions
@effect memory atomic
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:and|or|xor ~HINT? T:BITS2 ; u:T a s:T h
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:exch ~HINT? T:BITS2 ; u:T a s:T h
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:add ~HINT? T:u32|s32|u64|f32|f64 ; u:T a s:T h
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:inc|dec ~HINT? T:u32 ; u:T a s:T h
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:min|max ~HINT? T:u32|s32|u64|s64 ; u:T a s:T h
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:cas T:BITS2 ; u:T a s:T s:T
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:cas T:b16 ; u:T a s:T s:T ; ptx=6.3 arch=70
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:cas T:b128 ; u:T a s:T s:T ; ptx=8.3 arch=90
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:exch ~HINT? T:b128 ; u:T a s:T h ; ptx=8.3 arch=90
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:add ~noftz ~HINT? T:f16|f16x2 ; u:T a s:T h ; ptx=6.2 arch=70
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:SPACE_SYNC? OP:add ~noftz ~HINT? T:bf16|bf16x2 ; u:T a s:T h ; ptx=7.8 arch=90
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:global? OP:add ~HINT? VEC:v2|v4 T:f32 ; U:T a S:T h ; ptx=8.1 arch=90
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:global? OP:add|min|max ~noftz ~HINT? VEC:v2|v4|v8 T:HALF ; U:T a S:T h ; ptx=8.1 arch=90
atom SEM:relaxed|acquire|release|acq_rel? SCOPE? SPACE:global? OP:add|min|max ~noftz ~HINT? VEC:v2|v4 T:f16x2|bf16x2 ; U:T a S:T h ; ptx=8.1 arch=90
red SEM:relaxed|release? SCOPE? SPACE:SPACE_SYNC? OP:and|or|xor ~HINT? T:BITS2 ; a s:T h
red SEM:relaxed|release? SCOPE? SPACE:SPACE_SYNC? OP:add ~HINT? T:u32|s32|u64|f32|f64 ; a s:T h
red SEM:relaxed|release? SCOPE? SPACE:SPACE_SYNC? OP:inc|dec ~HINT? T:u32 ; a s:T h
red SEM:relaxed|release? SCOPE? SPACE:SPACE_SYNC? OP:min|max ~HINT? T:u32|s32|u64|s64 ; a s:T h
red SEM:relaxed|release? SCOPE? SPACE:SPACE_SYNC? OP:add ~noftz ~HINT? T:f16|f16x2 ; a s:T h ; ptx=6.2 arch=70
red SEM:relaxed|release? SCOPE? SPACE:SPACE_SYNC? OP:add ~noftz ~HINT? T:bf16|bf16x2 ; a s:T h ; ptx=7.8 arch=90
red SEM:relaxed|release? SCOPE? SPACE:global? OP:add ~HINT? VEC:v2|v4 T:f32 ; a S:T h ; ptx=8.1 arch=90
red SEM:relaxed|release? SCOPE? SPACE:global? OP:add|min|max ~noftz ~HINT? VEC:v2|v4|v8 T:HALF ; a S:T h ; ptx=8.1 arch=90
red SEM:relaxed|release? SCOPE? SPACE:global? OP:add|min|max ~noftz ~HINT? VEC:v2|v4 T:f16x2|bf16x2 ; a S:T h ; ptx=8.1 arch=90

@chapter Data Movement and Conversion Instructions: multimem
@effect memory read
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:and|or|xor T:b32|b64 ; d:T a ; ptx=8.1 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:min|max|add T:u32|s32|u64|s64 ; d:T a ; ptx=8.1 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:add T:f64 ; d:T a ; ptx=8.1 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:add VEC:v2|v4? T:f32 ; L:T a ; ptx=8.1 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:min|max|add VEC:v2|v4|v8 T:f16|bf16 ; L:T a ; ptx=8.1 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:min|max|add VEC:v2|v4? T:f16x2|bf16x2 ; L:T a ; ptx=8.1 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:add ~ACC:acc::f32 VEC:v2|v4|v8 T:f16|bf16 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:add ~ACC:acc::f32 VEC:v2|v4? T:f16x2|bf16x2 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce &SEM:relaxed|acquire? &SCOPE? SPACE:global? OP:min|max|add ~ACC:acc::f16? VEC:v2|v4|v8|v16? T:e5m2|e5m2x2|e5m2x4|e4m3|e4m3x2|e4m3x4 ; * ; ptx=8.6 arch=100f,110f,120a,121a
multimem.ld_reduce ~weak SPACE:global? OP:and|or|xor T:b32|b64 ; d:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:min|max|add T:u32|s32|u64|s64 ; d:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:add T:f64 ; d:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:add VEC:v2|v4? T:f32 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:min|max|add VEC:v2|v4|v8 T:f16|bf16 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:min|max|add VEC:v2|v4? T:f16x2|bf16x2 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:add ~ACC:acc::f32 VEC:v2|v4|v8 T:f16|bf16 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:add ~ACC:acc::f32 VEC:v2|v4? T:f16x2|bf16x2 ; L:T a ; ptx=8.2 arch=90
multimem.ld_reduce ~weak SPACE:global? OP:min|max|add ~ACC:acc::f16? VEC:v2|v4|v8|v16? T:e5m2|e5m2x2|e5m2x4|e4m3|e4m3x2|e4m3x4 ; * ; ptx=8.6 arch=100f,110f,120a,121a
@effect memory write
multimem.st &SEM:relaxed|release? &SCOPE? SPACE:global? T:b32|b64|u32|s32|u64|s64|f64 ; a s:T ; ptx=8.1 arch=90
multimem.st &SEM:relaxed|release? &SCOPE? SPACE:global? VEC:v2|v4? T:f32|f16x2|bf16x2 ; a S:T ; ptx=8.1 arch=90
multimem.st &SEM:relaxed|release? &SCOPE? SPACE:global? VEC:v2|v4|v8 T:f16|bf16 ; a S:T ; ptx=8.1 arch=90
multimem.st &SEM:relaxed|release? &SCOPE? SPACE:global? VEC:v2|v4|v8|v16? T:e5m2|e5m2x2|e5m2x4|e4m3|e4m3x2|e4m3x4 ; * ; ptx=8.6 arch=100f,110f,120a,121a
multimem.st ~weak SPACE:global? T:b32|b64|u32|s32|u64|s64|f64 ; a s:T ; ptx=8.2 arch=90
multimem.st ~weak SPACE:global? VEC:v2|v4? T:f32|f16x2|bf16x2 ; a S:T ; ptx=8.2 arch=90
multimem.st ~weak SPACE:global? VEC:v2|v4|v8 T:f16|bf16 ; a S:T ; ptx=8.2 arch=90
multimem.st ~weak SPACE:global? VEC:v2|v4|v8|v16? T:e5m2|e5m2x2|e5m2x4|e4m3|e4m3x2|e4m3x4 ; * ; ptx=8.6 arch=100f,110f,120a,121a
@effect memory atomic
multimem.red &SEM:relaxed|release? &SCOPE? SPACE:global? OP:and|or|xor T:b32|b64 ; a s:T ; ptx=8.1 arch=90
multimem.red &SEM:relaxed|release? &SCOPE? SPACE:global? OP:min|max|add T:u32|s32|u64|s64 ; a s:T ; ptx=8.1 arch=90
multimem.red &SEM:relaxed|release? &SCOPE? SPACE:global? OP:add T:f64 ; a s:T ; ptx=8.1 arch=90
multimem.red &SEM:relaxed|release? &SCOPE? SPACE:global? OP:add VEC:v2|v4? T:f32|f16x2|bf16x2 ; a S:T ; ptx=8.1 arch=90
multimem.red &SEM:relaxed|release? &SCOPE? SPACE:global? OP:add VEC:v2|v4|v8 T:f16|bf16 ; a S:T ; ptx=8.1 arch=90
@effect memory write
multimem.st.async SEM:relaxed|release SCOPE SPACE:global? T:SIZED ; * ; ptx=9.3 arch=90 !asynchronous stores to multicast memory are not modelled
@effect memory atomic
multimem.red.async SEM:relaxed|release SCOPE SPACE:global? OP:REDUCE T:SIZED ; * ; ptx=9.3 arch=90 !asynchronous reductions of multicast memory are not modelled

@chapter Data Movement and Conversion Instructions: hints
@effect hint
prefetch SPACE:global|local? ~LEVEL:L1|L2 ; a
prefetch SPACE:global ~EVICT:L2::evict_last|L2::evict_normal ; a ; ptx=7.4 arch=80
prefetch SPACE:const|param? tensormap ; a ; ptx=8.0 arch=90
prefetchu ~LEVEL:L1 ; a
applypriority SPACE:global? ~EVICT:L2::evict_normal ; a i ; ptx=7.4 arch=80
@effect memory write
discard SPACE:global? ~LEVEL:L2 ; a i ; ptx=7.4 arch=80
"""
