// Two async warps, variant 6 with rows of any length: mended
// Shared memory is laid out by the length of a row, a parameter.
// prelude: nvfuser
// sizes: R = 8, C = 384
// expect: proved
// strict: refuted SV105@58
__global__ void v6_mended_any_columns(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1, Tensor<float, 2, 2> T3) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 0;
  nvfuser_index_t i0;
  i0 = ceilDiv(T0.logical_size[0LL], 2LL);
  nvfuser_index_t i1;
  i1 = i0 * ((nvfuser_index_t)blockIdx.x);
  nvfuser_index_t i2;
  i2 = ((nvfuser_index_t)threadIdx.x) + (128LL * ((nvfuser_index_t)threadIdx.y));
  nvfuser_index_t i14;
  i14 = ceilDiv((ceilDiv(T0.logical_size[1LL], 128)), 2);
  uint32_t i15;
  i15 = __to_uint32((4 * T0.logical_size[1LL]));
  bool b3;
  b3 = ((nvfuser_index_t)threadIdx.x) < 32ULL;
  bool b4;
  b4 = (((nvfuser_index_t)threadIdx.x) >= 32ULL) && (((nvfuser_index_t)threadIdx.x) < 64ULL);
  float* T4 = reinterpret_cast<float*>(array + smem_offset + 128);
  float* T5 = reinterpret_cast<float*>(array + smem_offset + (((((T0.logical_size[1LL] * 2) * 4) + 128) + 127) & -128));
  uint64_t* T6 = reinterpret_cast<uint64_t*>(array + smem_offset + 0);
  uint64_t* T7 = reinterpret_cast<uint64_t*>(array + smem_offset + 32);
  if ((Hopper::electSync(4294967295U) && b3) && (((nvfuser_index_t)threadIdx.y) == 0)) {
    #pragma unroll
    for(nvfuser_index_t i8 = 0; i8 < 2; ++i8) {
      mbarrier::init(toSmem((&T6[i8])), 1U);
      mbarrier::init(toSmem((&T7[i8])), 1U);
    }
    #pragma unroll
    for(nvfuser_index_t i8 = 0; i8 < 2; ++i8) {
      mbarrier::init(toSmem((&T6[(i8 + 2LL)])), 256U);
    }
  }
  __syncthreads();
  if ((((nvfuser_index_t)threadIdx.y) == 2)) {
    decreaseRegisters<152LL>();
    if ((b3 && Hopper::electSync(4294967295U))) {
      #pragma unroll 1
      for(nvfuser_index_t i9 = 0; i9 < i0; ++i9) {
        if (((i1 + i9) < T0.logical_size[0LL])) {
          mbarrier::waitParity(toSmem((&T6[((i9 % 2) + 2LL)])), (uint32_t)(((i9 / 2) % 2)));
          mbarrier::arriveExpectTX(toSmem((&T6[(i9 % 2)])), i15);
          Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (T0.logical_size[1LL] * (i1 + i9))), i15, toSmem((&T6[(i9 % 2)])) }), toSmem((&T4[(T0.logical_size[1LL] * (i9 % 2))])));
        }
      }
    }
    if ((b4 && Hopper::electSync(4294967295U))) {
      #pragma unroll 1
      for(nvfuser_index_t i9 = 0; i9 < i0; ++i9) {
        if (((i1 + i9) < T0.logical_size[0LL])) {
          mbarrier::waitParity(toSmem((&T6[((i9 % 2) + 2LL)])), (uint32_t)(((i9 / 2) % 2)));
          mbarrier::arriveExpectTX(toSmem((&T7[(i9 % 2)])), i15);
          Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T1.data + (T0.logical_size[1LL] * (i1 + i9))), i15, toSmem((&T7[(i9 % 2)])) }), toSmem((&T5[(T0.logical_size[1LL] * (i9 % 2))])));
        }
      }
    }
    return;
  } else {
    increaseRegisters<176LL>();
    #pragma unroll
    for(nvfuser_index_t i10 = 0; i10 < 2; ++i10) {
      mbarrier::arrive(toSmem((&T6[(i10 + 2LL)])));
    }
    #pragma unroll 1
    for(nvfuser_index_t i11 = 0; i11 < i0; ++i11) {
      if (((i1 + i11) < T0.logical_size[0LL])) {
        mbarrier::waitParity(toSmem((&T6[(i11 % 2)])), (uint32_t)(((i11 / 2) % 2)));
        mbarrier::waitParity(toSmem((&T7[(i11 % 2)])), (uint32_t)(((i11 / 2) % 2)));
        #pragma unroll 1
        for(nvfuser_index_t i16 = 0; i16 < i14; ++i16) {
          if ((((256 * i16) + i2) < T0.logical_size[1LL])) {
            float T8[1LL];
            T8[0LL] = T4[(((256 * i16) + i2) + (T0.logical_size[1LL] * (i11 % 2)))] * T5[(((256 * i16) + i2) + (T0.logical_size[1LL] * (i11 % 2)))];
            T3[(((256 * i16) + i2) + (T0.logical_size[1LL] * (i1 + i11)))] = T8[0LL];
          }
        }
      }
      mbarrier::arrive(toSmem((&T6[((i11 % 2) + 2LL)])));
    }
    block_sync::sync<false>(dim3(128, 2, 1));
  }
  if ((Hopper::electSync(4294967295U) && b3) && (((nvfuser_index_t)threadIdx.y) == 0)) {
    #pragma unroll
    for(nvfuser_index_t i12 = 0; i12 < 4; ++i12) {
      mbarrier::inval(toSmem((&T6[i12])));
    }
    #pragma unroll
    for(nvfuser_index_t i12 = 0; i12 < 2; ++i12) {
      mbarrier::inval(toSmem((&T7[i12])));
    }
  }
}
