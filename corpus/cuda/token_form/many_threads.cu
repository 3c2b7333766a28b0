// Token form, launched with 128 threads
// The main loop has no block barrier: other threads may read a token before thread 0 has stored it, and thread 0
// refills a slot that others may still read. Nor does one stand in front of the invalidation.
// prelude: nvfuser
// sizes: R = 5
// expect: refuted SV110@36 SV111@34
// strict: refuted SV110@36 SV105@34
__global__ void many_threads(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1) {
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
      T4[i1] = mbarrier::arriveExpectTX(toSmem((&T3[i1])), 512U);
      Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (128 * i1)), 512U, toSmem((&T3[i1])) }), toSmem((&T2[(128 * i1)])));
    }
  }
  __syncthreads();
  #pragma unroll 1
  for(nvfuser_index_t i2 = 0; i2 < (T0.logical_size[0LL] - 2); ++i2) {
    if (b0) {
      T4[((2 + i2) % 3)] = mbarrier::arriveExpectTX(toSmem((&T3[((2 + i2) % 3)])), 512U);
      Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (128 * (2 + i2))), 512U, toSmem((&T3[((2 + i2) % 3)])) }), toSmem((&T2[(128 * ((2 + i2) % 3))])));
    }
    mbarrier::wait(toSmem((&T3[(i2 % 3)])), T4[(i2 % 3)]);
    float T5[1LL];
    T5[0LL] = relu(T2[((128 * (i2 % 3)) + ((nvfuser_index_t)threadIdx.x))]);
    T1[((128 * i2) + ((nvfuser_index_t)threadIdx.x))] = T5[0LL];
  }
  #pragma unroll 1
  for(nvfuser_index_t i3 = (T0.logical_size[0LL] - 2); i3 < T0.logical_size[0LL]; ++i3) {
    mbarrier::wait(toSmem((&T3[(i3 % 3)])), T4[(i3 % 3)]);
    float T5[1LL];
    T5[0LL] = relu(T2[((128 * (i3 % 3)) + ((nvfuser_index_t)threadIdx.x))]);
    T1[((128 * i3) + ((nvfuser_index_t)threadIdx.x))] = T5[0LL];
  }
  __syncthreads();
  if (b0) {
    #pragma unroll
    for(nvfuser_index_t i1 = 0; i1 < 3; ++i1) {
      mbarrier::inval(toSmem((&T3[i1])));
    }
  }
}
