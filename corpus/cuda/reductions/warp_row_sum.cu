// Sum of each row: a TMA load and reductions by warps
// Each warp by shuffles, then one value a warp through shared memory, with block barriers around it.
// prelude: nvfuser
// sizes: R = 3
// expect: proved
// strict: refuted SV105@24
__global__ void warp_row_sum(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 1152;
  void* shared_mem = array;
  NVFUSER_DEFINE_MAGIC_ZERO;
  bool b0;
  b0 = ((nvfuser_index_t)threadIdx.x) < 32ULL;
  float* T2 = reinterpret_cast<float*>(array + smem_offset + 128);
  uint64_t* T3 = reinterpret_cast<uint64_t*>(array + smem_offset + 0);
  if ((Hopper::electSync(4294967295U) && b0)) {
    mbarrier::init(toSmem(T3), 1U);
  }
  __syncthreads();
  #pragma unroll 1
  for(nvfuser_index_t i1 = 0; i1 < T0.logical_size[0LL]; ++i1) {
    if ((Hopper::electSync(4294967295U) && b0)) {
      mbarrier::arriveExpectTX(toSmem(T3), 1024U);
      Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{ (T0.data + (256 * i1)), 1024U, toSmem(T3) }), toSmem(T2));
    }
    mbarrier::waitParity(toSmem(T3), (uint32_t)((i1 % 2)));
    float T4[1LL];
    T4[0LL] = T2[((nvfuser_index_t)threadIdx.x)];
    float T5[1LL];
    T5[0LL] = 0.000000000e+00f;
    warp::warpReduceTIDX<false, true>(
      T5[0LL],
      T4[0LL],
      [](float &a, float b) { a = a + b; },
      static_cast<float*>(shared_mem),
      true,
      float(0.000000000e+00f),
      DefaultBlockDim());
    T1[((256 * i1) + ((nvfuser_index_t)threadIdx.x))] = T5[0LL];
    NVFUSER_UPDATE_MAGIC_ZERO;
  }
  __syncthreads();
  if ((Hopper::electSync(4294967295U) && b0)) {
    mbarrier::inval(toSmem(T3));
  }
}
