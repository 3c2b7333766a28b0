"""Asynchronous copies, with and without tensor maps, and asynchronous stores."""

ROWS = """
@chapter Data Movement and Conversion Instructions: Asynchronous copy
@effect async copy
cp.async.ca <TO:SHARED <FROM:global ~HINT? ~PREFETCH? ; a a i k? h ; ptx=7.0 arch=80
cp.async.cg <TO:SHARED <FROM:global ~HINT? ~PREFETCH? ; a a i k? h ; ptx=7.0 arch=80
@effect async group
cp.async.commit_group ; ; ptx=7.0 arch=80
cp.async.wait_group ; i ; ptx=7.0 arch=80
cp.async.wait_all ; ; ptx=7.0 arch=80
@effect mbarrier
cp.async.mbarrier.arrive noinc? SPACE:SHARED? b64 ; a ; ptx=7.0 arch=80

@effect async copy
cp.async.bulk ~weak? <TO:shared::cta <FROM:global ~mbarrier::complete_tx::bytes !REPORT? ~HINT? ; a a s:u32 a h ; ptx=8.6 arch=90
cp.async.bulk ~weak? <TO:shared::cta <FROM:global ~mbarrier::complete_tx::bytes !REPORT? ~HINT? !ignore_oob ; a a s:u32 s:u32 s:u32 a h ; ptx=9.2 arch=90
cp.async.bulk !relaxed SCOPE <TO:shared::cta <FROM:global ~mbarrier::complete_tx::bytes !REPORT? ~HINT? !ignore_oob? T:b128 ; * ; ptx=9.3 arch=90a,100f,110f
cp.async.bulk ~weak? <TO:shared::cluster <FROM:global ~mbarrier::complete_tx::bytes !REPORT? ~HINT? ; a a s:u32 a h ; ptx=8.0 arch=90
cp.async.bulk ~weak? <TO:shared::cluster <FROM:global ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster ~HINT? ; a a s:u32 a s:u16 h ; ptx=8.0 arch=90
cp.async.bulk ~weak? <TO:shared::cluster <FROM:global ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster::16b ~HINT? ; a a s:u32 a s:u16 h ; ptx=9.4 arch=90
cp.async.bulk ~weak? <TO:shared::cluster <FROM:global ~mbarrier::complete_tx::bytes !REPORT? !multicast::cluster::32b ~HINT? ; a a s:u32 a s:u32 h ; ptx=9.4 arch=107f
cp.async.bulk !relaxed SCOPE <TO:shared::cluster <FROM:global ~mbarrier::complete_tx::bytes !REPORT? !MULTICAST:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b? ~HINT? T:b128 ; * ; ptx=9.3 arch=90a,100f,110f
cp.async.bulk ~weak? <TO:shared::cluster <FROM:shared::cta ~mbarrier::complete_tx::bytes ; a a s:u32 a ; ptx=8.0 arch=90
cp.async.bulk !relaxed SCOPE:cta|cluster <TO:shared::cluster <FROM:shared::cta ~mbarrier::complete_tx::bytes T:b128 ; a a s:u32 a ; ptx=9.3 arch=90a,100f,110f
cp.async.bulk ~weak? <TO:global <FROM:shared::cta ~bulk_group ~HINT? ; a a s:u32 h ; ptx=8.0 arch=90
cp.async.bulk ~weak? <TO:global <FROM:shared::cta ~bulk_group ~HINT? !cp_mask ; a a s:u32 h s:u16 ; ptx=8.6 arch=100
cp.async.bulk !relaxed SCOPE <TO:global <FROM:shared::cta ~bulk_group ~HINT? !cp_mask? T:b128 ; * ; ptx=9.3 arch=90a,100f,110f
cp.reduce.async.bulk <TO:shared::cluster <FROM:shared::cta ~mbarrier::complete_tx::bytes ~OP:and|or|xor ~TYPE:b32 ; a a s:u32 a ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:shared::cluster <FROM:shared::cta ~mbarrier::complete_tx::bytes ~OP:add ~TYPE:u32|s32|u64 ; a a s:u32 a ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:shared::cluster <FROM:shared::cta ~mbarrier::complete_tx::bytes ~OP:min|max ~TYPE:u32|s32 ; a a s:u32 a ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:shared::cluster <FROM:shared::cta ~mbarrier::complete_tx::bytes ~OP:inc|dec ~TYPE:u32 ; a a s:u32 a ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~HINT? ~OP:and|or|xor ~TYPE:b32|b64 ; a a s:u32 h ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~HINT? ~OP:add ~TYPE:u32|s32|u64|f32|f64 ; a a s:u32 h ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~HINT? ~OP:add ~noftz ~TYPE:f16|bf16 ; a a s:u32 h ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~HINT? ~OP:min|max ~TYPE:u32|s32|u64|s64|f16|bf16 ; a a s:u32 h ; ptx=8.0 arch=90
cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~HINT? ~OP:inc|dec ~TYPE:u32 ; a a s:u32 h ; ptx=8.0 arch=90
@effect hint
cp.async.bulk.prefetch.L2 FROM:global ~HINT? ; a s:u32 h ; ptx=8.0 arch=90
cp.async.bulk.prefetch.L2 FROM:global ~EVICT:L2::evict_last ; a s:u32 ; ptx=9.4 arch=107f
applypriority.async.bulk ~cta:global? ~bulk_group ~EVICT:L2::evict_normal ; * ; ptx=9.4 arch=107f !an asynchronous change of eviction priorities is not modelled
applypriority.async.bulk.tensor DIM ~cta:global? ~bulk_group ~EVICT:L2::evict_normal ; * ; ptx=9.4 arch=107f !an asynchronous change of eviction priorities is not modelled
@effect async copy
multimem.cp.async.bulk <TO:global <FROM:shared::cta ~bulk_group ; a a s:u32 ; ptx=9.1 arch=90
multimem.cp.async.bulk <TO:global <FROM:shared::cta ~bulk_group !cp_mask ; a a s:u32 s:u16 ; ptx=9.1 arch=100
multimem.cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~OP:and|or|xor ~TYPE:b32|b64 ; a a s:u32 ; ptx=9.1 arch=90
multimem.cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~OP:add ~TYPE:u32|s32|u64|f32|f64 ; a a s:u32 ; ptx=9.1 arch=90
multimem.cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~OP:add ~noftz ~TYPE:f16|bf16 ; a a s:u32 ; ptx=9.1 arch=90
multimem.cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~OP:min|max ~TYPE:u32|s32|u64|s64|f16|bf16 ; a a s:u32 ; ptx=9.1 arch=90
multimem.cp.reduce.async.bulk <TO:global <FROM:shared::cta ~bulk_group ~OP:inc|dec ~TYPE:u32 ; a a s:u32 ; ptx=9.1 arch=90

@chapter Data Movement and Conversion Instructions: Tensor copy
cp.async.bulk.tensor DIM <TO:shared::cta <FROM:global ~LOAD_MODE:tile? ~mbarrier::complete_tx::bytes !REPORT? !CTA_GROUP? ~HINT? ; a t a h ; ptx=8.6 arch=90
cp.async.bulk.tensor DIM:3d|4d|5d <TO:shared::cta <FROM:global ~LOAD_MODE:im2col ~mbarrier::complete_tx::bytes !REPORT? !CTA_GROUP? ~HINT? ; a t a v h ; ptx=8.6 arch=90
cp.async.bulk.tensor DIM <TO:shared::cta <FROM:global !GATHER:tile::gather4|im2col::w|im2col::w::128 ~mbarrier::complete_tx::bytes !REPORT? !CTA_GROUP? ~HINT? ; * ; ptx=8.6 arch=100
cp.async.bulk.tensor DIM <TO:shared::cluster <FROM:global ~LOAD_MODE:tile? ~mbarrier::complete_tx::bytes !REPORT? !CTA_GROUP? ~HINT? ; a t a h ; ptx=8.0 arch=90
cp.async.bulk.tensor DIM:3d|4d|5d <TO:shared::cluster <FROM:global ~LOAD_MODE:im2col ~mbarrier::complete_tx::bytes !REPORT? !CTA_GROUP? ~HINT? ; a t a v h ; ptx=8.0 arch=90
cp.async.bulk.tensor DIM <TO:shared::cluster <FROM:global ~LOAD_MODE:tile? ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster !CTA_GROUP? ~HINT? ; a t a s:u16 h ; ptx=8.0 arch=90
cp.async.bulk.tensor DIM:3d|4d|5d <TO:shared::cluster <FROM:global ~LOAD_MODE:im2col ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster !CTA_GROUP? ~HINT? ; a t a v s:u16 h ; ptx=8.0 arch=90
cp.async.bulk.tensor DIM <TO:shared::cluster <FROM:global ~LOAD_MODE:tile? ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster::16b !CTA_GROUP? ~HINT? ; a t a s:u16 h ; ptx=9.4 arch=90
cp.async.bulk.tensor DIM:3d|4d|5d <TO:shared::cluster <FROM:global ~LOAD_MODE:im2col ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster::16b !CTA_GROUP? ~HINT? ; a t a v s:u16 h ; ptx=9.4 arch=90
cp.async.bulk.tensor DIM <TO:shared::cluster <FROM:global ~LOAD_MODE:tile|im2col? ~mbarrier::complete_tx::bytes !REPORT? !multicast::cluster::32b !CTA_GROUP? ~HINT? ; * ; ptx=9.4 arch=107f
cp.async.bulk.tensor DIM <TO:shared::cluster <FROM:global !GATHER:tile::gather4|im2col::w ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b? !CTA_GROUP? ~HINT? ; * ; ptx=8.6 arch=100f,110f
cp.async.bulk.tensor DIM <TO:shared::cluster <FROM:global !GATHER:im2col::w::128 ~mbarrier::complete_tx::bytes !REPORT? MULTICAST:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b? !CTA_GROUP? ~HINT? ; * ; ptx=8.6 arch=100f,110f
cp.async.bulk.tensor DIM <TO:shared::cta|shared::cluster <FROM:global ~LOAD_MODE:tile|im2col? ~mbarrier::complete_tx::bytes !REPORT? !override::global_address !OVERRIDE:override::global_dim|override::global_dim_stride? MULTICAST:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b? !CTA_GROUP? ~HINT? ; * ; ptx=9.4 arch=107f
cp.async.bulk.tensor DIM <TO:global <FROM:shared::cta ~LOAD_MODE:tile? ~bulk_group ~HINT? ; t a h ; ptx=8.0 arch=90
cp.async.bulk.tensor DIM:3d|4d|5d <TO:global <FROM:shared::cta ~LOAD_MODE:im2col_no_offs ~bulk_group ~HINT? ; t a h ; ptx=8.0 arch=90
cp.async.bulk.tensor DIM <TO:global <FROM:shared::cta !GATHER:tile::scatter4|im2col_no_offs::w ~bulk_group ~HINT? ; * ; ptx=8.6 arch=100f,110f
cp.reduce.async.bulk.tensor DIM <TO:global <FROM:shared::cta ~OP:REDUCE ~LOAD_MODE:tile? ~bulk_group ~HINT? ; t a h ; ptx=8.0 arch=90
cp.reduce.async.bulk.tensor DIM:3d|4d|5d <TO:global <FROM:shared::cta ~OP:REDUCE ~LOAD_MODE:im2col_no_offs ~bulk_group ~HINT? ; t a h ; ptx=8.0 arch=90
cp.reduce.async.bulk.tensor DIM <TO:global <FROM:shared::cta ~OP:REDUCE !GATHER:im2col_no_offs::w ~bulk_group ~HINT? ; * ; ptx=9.4 arch=107f
@effect hint
cp.async.bulk.prefetch.tensor DIM L2 FROM:global ~LOAD_MODE:tile? ~HINT? ; t h ; ptx=8.0 arch=90
cp.async.bulk.prefetch.tensor DIM:3d|4d|5d L2 FROM:global ~LOAD_MODE:im2col ~HINT? ; t v h ; ptx=8.0 arch=90
cp.async.bulk.prefetch.tensor DIM L2 FROM:global ~LOAD_MODE:tile::gather4|im2col::w|im2col::w::128 ~HINT? ; * ; ptx=8.6 arch=100f,110f
@effect async group
cp.async.bulk.commit_group ; ; ptx=8.0 arch=90
cp.async.bulk.wait_group read? ; i ; ptx=8.0 arch=90
@effect tensormap
tensormap.replace.tile FIELD:global_address SPACE:global|shared::cta? b1024 b64 ; a s:b64 ; ptx=8.3 arch=90a,100f,110f,120f
tensormap.replace.tile FIELD:rank SPACE:global|shared::cta? b1024 b32 ; a s:b32 ; ptx=8.3 arch=90a,100f,110f,120f
tensormap.replace.tile FIELD:box_dim|global_dim|element_stride SPACE:global|shared::cta? b1024 b32 ; a i s:b32 ; ptx=8.3 arch=90a,100f,110f,120f
tensormap.replace.tile FIELD:global_stride SPACE:global|shared::cta? b1024 b64 ; a i s:b64 ; ptx=8.3 arch=90a,100f,110f,120f
tensormap.replace.tile FIELD:elemtype|interleave_layout|swizzle_mode|fill_mode SPACE:global|shared::cta? b1024 b32 ; a i ; ptx=8.3 arch=90a,100f,110f,120f
tensormap.replace.tile FIELD:swizzle_atomicity SPACE:global|shared::cta? b1024 b32 ; a i ; ptx=8.6 arch=100f,110f,120f
tensormap.cp_fenceproxy <TO:global <FROM:shared::cta tensormap::generic release SCOPE sync aligned ; a a i ; ptx=8.3 arch=90 mask=warp

@chapter Data Movement and Conversion Instructions: st.async
@effect async store
st.async ~weak? SPACE:shared::cluster? mbarrier::complete_tx::bytes VEC:v2|v4? T:b32|u32|s32|f32|b64|u64|s64|f64 ; a S:T a ; ptx=8.1 arch=90
st.async SCOPE:cluster SPACE:shared::cluster? mbarrier::complete_tx::bytes VEC:v2|v4? T:b32|u32|s32|f32|b64|u64|s64|f64 ; a S:T a ; ptx=9.3 arch=90
st.async MMIO:mmio? SEM:release SCOPE:gpu|sys SPACE:global? T:SIZED ; a s:T ; ptx=8.7 arch=100 !asynchronous stores to global memory are not modelled
red.async SEM:relaxed SCOPE:cluster SPACE:shared::cluster? mbarrier::complete_tx::bytes OP:inc|dec T:u32 ; a s:T a ; ptx=8.1 arch=90
red.async SEM:relaxed SCOPE:cluster SPACE:shared::cluster? mbarrier::complete_tx::bytes OP:min|max T:u32|s32 ; a s:T a ; ptx=8.1 arch=90
red.async SEM:relaxed SCOPE:cluster SPACE:shared::cluster? mbarrier::complete_tx::bytes OP:and|or|xor T:b32 ; a s:T a ; ptx=8.1 arch=90
red.async SEM:relaxed SCOPE:cluster SPACE:shared::cluster? mbarrier::complete_tx::bytes OP:add T:u32|s32|u64 ; a s:T a ; ptx=8.1 arch=90
red.async MMIO:mmio? SEM:release SCOPE:gpu|sys|cluster SPACE:global? OP:add T:u32|s32|u64|s64 ; a s:T ; ptx=8.7 arch=100 !asynchronous reductions of global memory are not modelled

@chapter Data Movement and Conversion Instructions: fabric
fabric.try_get ... ; * ; ptx=9.3 arch=90 !operations on logical endpoints are not modelled
fabric.try_put ... ; * ; ptx=9.3 arch=90 !operations on logical endpoints are not modelled
fabric.submit ... ; * ; ptx=9.3 arch=90 !operations on logical endpoints are not modelled
fabric.wait ... ; * ; ptx=9.3 arch=90 !operations on logical endpoints are not modelled
"""
