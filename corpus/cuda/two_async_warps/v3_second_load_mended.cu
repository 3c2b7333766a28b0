// Two async warps, variant 3: the second load is mended, with the row's bounds test
// It still hangs: the idle warps arrive on the empty barriers too, whose phases run ahead of the loads.
// prelude: nvfuser
// sizes: R = 8
// expect: refuted SV202@60 SV205@78 SV304@46
// strict: refuted SV202@60 SV105@52 SV205@78 SV304@46
__global__ void v3_second_load_mended(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1, Tensor<float, 2, 2> T3) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 0;
  nvfuser_index_t i0;
  i0 = ceilDiv(T0.logical_size[0LL], 2LL);
  nvfuser_index_t i1;
  i1 = i0 * ((nvfuser_index_t)blockIdx.x);
  nvfuser_index_t i2;
  i2 = ((nvfuser_index_t)threadIdx.x) + (128LL * ((nvfuser_index_t)threadIdx.y));
  bool b3;
  b3 = ((nvfuser_index_t)threadIdx.x) < 32ULL;
  bool b4;
  b4 = (((nvfuser_index_t)threadIdx.x) >= 32ULL) && (((nvfuser_index_t)threadIdx.x) < 64ULL);
  float* T4 = reinterpret_cast<float*>(array + smem_offset + 128);
  float* T5 = reinterpret_cast<float*>(array + smem_offset + 2176);
  uint64_t* T6 = reinterpret_cast<uint64_t*>(array + smem_offset + 0);
  if ((Hopper::electSync(4294967295U) && b3) && (((nvfuser_index_t)threadIdx.y) == 0)) {
    #pragma unroll
    for(nvfuser_index_t i8 = 0; i8 < 2; ++i8) {
      mbarrier::init(toSmem((&T6[i8])), 2U);
    }
    #pragma unroll
    for(nvfuser_index_t i8 = 0; i8 < 2; ++i8) {
      mbarrier::init(toSmem((&T6[(i8 + 2LL)])), 256U);
    }
  }
  __syncthreads();
  if (((((nvfuser_index_t)threadIdx.y) == 2) && b3)) {
    decreaseRegisters<152LL>();
    #pragma unroll 1
    for(nvfuser_index_t i9 = 0; i9 < i0; ++i9) {
      if (((b3 && Hopper::electSync(4294967295U)) && ((i1 + i9) < T0.logical_size[0LL]))) {
        mbarrier::waitParity(toSmem((&T6[((i9 % 2) + 2LL)])), (uint32_t)(((i9 / 2) % 2)));
        mbarrier::arriveExpectTX(toSmem((&T6[(i9 % 2)])), 1024U);
        Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (256 * (i1 + i9))), 1024U, toSmem((&T6[(i9 % 2)])) }), toSmem((&T4[(256 * (i9 % 2))])));
      }
    }
    return;
  } else if (((((nvfuser_index_t)threadIdx.y) == 2) && b4)) {
    decreaseRegisters<152LL>();
    #pragma unroll 1
    for(nvfuser_index_t i9 = 0; i9 < i0; ++i9) {
      if (((b4 && Hopper::electSync(4294967295U)) && ((i1 + i9) < T0.logical_size[0LL]))) {
        mbarrier::waitParity(toSmem((&T6[((i9 % 2) + 2LL)])), (uint32_t)(((i9 / 2) % 2)));
        mbarrier::arriveExpectTX(toSmem((&T6[(i9 % 2)])), 1024U);
        Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T1.data + (256 * (i1 + i9))), 1024U, toSmem((&T6[(i9 % 2)])) }), toSmem((&T5[(256 * (i9 % 2))])));
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
        if ((((nvfuser_index_t)threadIdx.y) < 2)) {
          float T8[1LL];
          T8[0LL] = T4[(i2 + (256 * (i11 % 2)))] * T5[(i2 + (256 * (i11 % 2)))];
          T3[(i2 + (256 * (i1 + i11)))] = T8[0LL];
        }
      }
      mbarrier::arrive(toSmem((&T6[((i11 % 2) + 2LL)])));
    }
  }
  if ((Hopper::electSync(4294967295U) && b3) && (((nvfuser_index_t)threadIdx.y) == 0)) {
    #pragma unroll
    for(nvfuser_index_t i12 = 0; i12 < 4; ++i12) {
      mbarrier::inval(toSmem((&T6[i12])));
    }
  }
}
