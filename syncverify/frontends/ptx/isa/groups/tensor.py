"""The tensor cores of the fifth generation, and launch control of clusters."""

ROWS = """
@chapter TensorCore 5th Generation Family Instructions
@effect tensor memory
tcgen05.alloc exclusive? CTA_GROUP sync aligned SPACE:shared::cta? b32 ; a s:u32 ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.dealloc exclusive? CTA_GROUP sync aligned b32 ; s:b32 s:u32 ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.relinquish_alloc_permit CTA_GROUP sync aligned ; ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.ld sync aligned SHAPE:16x64b|16x128b|16x256b|32x32b|16x32bx2 NUM:x1|x2|x4|x8|x16|x32|x64|x128 PACK:pack::16b? b32 ; v a i? ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.ld.red sync aligned SHAPE:32x32b|16x32bx2 NUM:x2|x4|x8|x16|x32|x64|x128 OP:min|max abs? NaN? T:f32|u32|s32 ; v d:T a i? ; ptx=8.8 arch=103f,110f mask=warp !tensor memory is not modelled
tcgen05.st sync aligned SHAPE:16x64b|16x128b|16x256b|32x32b NUM:x1|x2|x4|x8|x16|x32|x64|x128 PACK:unpack::16b? b32 ; a v ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.st sync aligned SHAPE:16x32bx2 NUM:x1|x2|x4|x8|x16|x32|x64|x128 PACK:unpack::16b? b32 ; a i v ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.wait::ld sync aligned ; ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.wait::st sync aligned ; ; ptx=8.6 arch=100f,110f mask=warp !tensor memory is not modelled
tcgen05.cp CTA_GROUP SHAPE:128x256b|4x256b|128x128b|64x128b|32x128b MULTICAST:warpx2::02_13|warpx2::01_23|warpx4? FORMAT:b8x16? SOURCE:b6x16_p32|b4x16_p64? ; a s:b64 ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.shift CTA_GROUP down ; a ; ptx=8.6 arch=100a,103a,107a,110a !tensor memory is not modelled
tcgen05.mma CTA_GROUP KIND:kind::f16|kind::tf32|kind::f8f6f4|kind::i8|kind::ti16|kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4 block_scale? SCALE:scale_vec::1X|scale_vec::2X|scale_vec::4X|block16|block32? ashift? COLLECTOR:collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard|collector::a|collector::b::fill|collector::b::use|collector::b::lastuse|collector::b::discard? DECOMPRESS:decompress::lut::b? ; * ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.mma.sp CTA_GROUP KIND:kind::f16|kind::tf32|kind::f8f6f4|kind::i8|kind::ti16|kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4 block_scale? SCALE:scale_vec::1X|scale_vec::2X|scale_vec::4X|block16|block32? ashift? COLLECTOR:collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard|collector::a|collector::b::fill|collector::b::use|collector::b::lastuse|collector::b::discard? ; * ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.mma.ws CTA_GROUP:cta_group::1 KIND:kind::f16|kind::tf32|kind::f8f6f4|kind::i8|kind::ti16 COLLECTOR:BUFFERS? ; * ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.mma.ws.sp CTA_GROUP:cta_group::1 KIND:kind::f16|kind::tf32|kind::f8f6f4|kind::i8|kind::ti16 COLLECTOR:BUFFERS? ; * ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.fence::before_thread_sync ; ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.fence::after_thread_sync ; ; ptx=8.6 arch=100f,110f !tensor memory is not modelled
tcgen05.commit CTA_GROUP mbarrier::arrive::one RESTRICT:sync_restrict::shared::read::mma::a? SPACE:shared::cluster? MULTICAST:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b? b64 ; a s:b16? ; ptx=8.6 arch=100f,110f !tensor memory is not modelled

@chapter Parallel Synchronization and Communication Instructions: clusterlaunchcontrol
@effect async copy
clusterlaunchcontrol.try_cancel async SPACE:shared::cta? mbarrier::complete_tx::bytes b128 ; a a ; ptx=8.6 arch=100 !a launch that is cancelled is not modelled
clusterlaunchcontrol.try_cancel async SPACE:shared::cta? mbarrier::complete_tx::bytes multicast::cluster::all b128 ; a a ; ptx=8.6 arch=100f,110f,120f !a launch that is cancelled is not modelled
@effect register
clusterlaunchcontrol.query_cancel.is_canceled pred b128 ; p s:b128 ; ptx=8.6 arch=100
clusterlaunchcontrol.query_cancel.get_first_ctaid VEC:v4 b32 b128 ; v s:b128 ; ptx=8.6 arch=100
clusterlaunchcontrol.query_cancel.get_first_ctaid::x b32 b128 ; d:b32 s:b128 ; ptx=8.6 arch=100
clusterlaunchcontrol.query_cancel.get_first_ctaid::y b32 b128 ; d:b32 s:b128 ; ptx=8.6 arch=100
clusterlaunchcontrol.query_cancel.get_first_ctaid::z b32 b128 ; d:b32 s:b128 ; ptx=8.6 arch=100

@chapter Sparse compression
@effect data
spcompress ... ; * ; ptx=9.4 arch=107a !compression of sparse data is not modelled
spdecompress ... ; * ; ptx=9.4 arch=107a !compression of sparse data is not modelled
"""
