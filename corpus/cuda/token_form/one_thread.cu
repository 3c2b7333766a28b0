// Token form, launched with one thread
// Rows through three slots, two in flight: prologue, main loop, epilogue. The tokens of the arrivals lie in
// shared memory (T4), and one block barrier stands in front of the main loop. Right for two rows or more; with
// one, the epilogue starts at row -1 and takes a token from below the array.
// prelude: nvfuser
// sizes: R = 5
// expect: proved
// strict: refuted SV105@35
__global__ void one_thread(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 0;
  bool b0;
  b0 = ((nvfuser_index_t)threadIdx.x) == 0;
  uint64_t* T4 = reinterpret_cast<uint64_t*>(array + smem_offset + 0);
  uint64_t* T3 = reinterpret_cast<uint64_t*>(array + smem_offset + 32);
  float* T2 = reinterpret_cast<float*>(array + smem_offset + 128);
  if (b0) {
    #pragma unroll
    for(nvfuser_index_t i1 = 0; i1 < 3; ++i1) {
      mbarrier::init(toSmem((&T3[i1])), 1U);
    }
  }
  #pragma unroll
  for(nvfuser_index_t i1 = 0; i1 < 2; ++i1) {
    if (b0 && (i1 < T0.logical_size[0LL])) {
      T4[i1] = mbarrier::arriveExpectTX(toSmem((&T3[i1])), 64U);
      Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (16 * i1)), 64U, toSmem((&T3[i1])) }), toSmem((&T2[(16 * i1)])));
    }
  }
  __syncthreads();
  #pragma unroll 1
  for(nvfuser_index_t i2 = 0; i2 < (T0.logical_size[0LL] - 2); ++i2) {
    if (b0) {
      T4[((2 + i2) % 3)] = mbarrier::arriveExpectTX(toSmem((&T3[((2 + i2) % 3)])), 64U);
      Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (16 * (2 + i2))), 64U, toSmem((&T3[((2 + i2) % 3)])) }), toSmem((&T2[(16 * ((2 + i2) % 3))])));
    }
    mbarrier::wait(toSmem((&T3[(i2 % 3)])), T4[(i2 % 3)]);
    #pragma unroll
    for(nvfuser_index_t i4 = 0; i4 < 16; ++i4) {
      float T5[1LL];
      T5[0LL] = relu(T2[((16 * (i2 % 3)) + i4)]);
      T1[((16 * i2) + i4)] = T5[0LL];
    }
  }
  #pragma unroll 1
  for(nvfuser_index_t i3 = (T0.logical_size[0LL] - 2); i3 < T0.logical_size[0LL]; ++i3) {
    mbarrier::wait(toSmem((&T3[(i3 % 3)])), T4[(i3 % 3)]);
    #pragma unroll
    for(nvfuser_index_t i4 = 0; i4 < 16; ++i4) {
      float T5[1LL];
      T5[0LL] = relu(T2[((16 * (i3 % 3)) + i4)]);
      T1[((16 * i3) + i4)] = T5[0LL];
    }
  }
  if (b0) {
    #pragma unroll
    for(nvfuser_index_t i1 = 0; i1 < 3; ++i1) {
      mbarrier::inval(toSmem((&T3[i1])));
    }
  }
}
