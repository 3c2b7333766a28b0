// Pipelined circular buffer without the block barrier after each row
// A warp that runs ahead refills a slot that others have not read yet, and completes phases that they still wait for.
// prelude: nvfuser
// sizes: R = 11
// expect: refuted SV111@34
// strict: refuted SV111@34 SV105@34
__global__ void without_block_sync(Tensor<float, 2, 2> T0, const __grid_constant__ TensorMap var0, Tensor<float, 2, 2> T1) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 0;
  const TensorMap* ptr0;
  ptr0 = &var0;
  bool b1;
  b1 = ((nvfuser_index_t)threadIdx.x) < 32ULL;
  float* T2 = reinterpret_cast<float*>(array + smem_offset + 128);
  uint64_t* T3 = reinterpret_cast<uint64_t*>(array + smem_offset + 0);
  #pragma unroll
  for(nvfuser_index_t i2 = 0; i2 < 4; ++i2) {
    if ((Hopper::electSync(4294967295U) && b1)) {
      mbarrier::init(toSmem((&T3[i2])), 1U);
    }
  }
  __syncthreads();
  #pragma unroll
  for(nvfuser_index_t i3 = 0; i3 < 2; ++i3) {
    if (((Hopper::electSync(4294967295U) && b1) && (i3 < T0.logical_size[0LL]))) {
      mbarrier::arriveExpectTX(toSmem((&T3[i3])), 512U);
      Hopper::cpAsyncBulkTensorTileG2S((Hopper::CpAsyncBulkTensorTileG2SIndex<2>{ ptr0, (Array<nvfuser_index_t, 2, 1>{0, i3}), toSmem((&T3[i3])) }), toSmem((&T2[(128 * i3)])));
    }
  }
  #pragma unroll 1
  for(nvfuser_index_t i4 = 0; i4 < T0.logical_size[0LL]; ++i4) {
    if (((Hopper::electSync(4294967295U) && b1) && ((2 + i4) < T0.logical_size[0LL]))) {
      mbarrier::arriveExpectTX(toSmem((&T3[((2 + i4) % 4)])), 512U);
      Hopper::cpAsyncBulkTensorTileG2S((Hopper::CpAsyncBulkTensorTileG2SIndex<2>{ ptr0, (Array<nvfuser_index_t, 2, 1>{0, (2 + i4)}), toSmem((&T3[((2 + i4) % 4)])) }), toSmem((&T2[(128 * ((2 + i4) % 4))])));
    }
    mbarrier::waitParity(toSmem((&T3[(i4 % 4)])), (uint32_t)(((i4 / 4) % 2)));
    float T4[1LL];
    T4[0LL] = T2[((128 * (i4 % 4)) + ((nvfuser_index_t)threadIdx.x))];
    T1[((128 * i4) + ((nvfuser_index_t)threadIdx.x))] = relu(T4[0LL]);
  }
  __syncthreads();
  #pragma unroll
  for(nvfuser_index_t i5 = 0; i5 < 4; ++i5) {
    if ((Hopper::electSync(4294967295U) && b1)) {
      mbarrier::inval(toSmem((&T3[i5])));
    }
  }
}
