// TMA stores that are waited for behind the block barrier
// The block meets, then the issuer waits until its stores have read shared memory; the other warps go on to the
// next tile and overwrite what is still being read.
// prelude: nvfuser
// sizes: R = 2
// expect: refuted SV104@22
// strict: refuted SV101@30 SV104@22
__global__ void wait_after_block_sync(Tensor<float, 2, 2> T0, const __grid_constant__ TensorMap var0, Tensor<float, 2, 2> T3) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 0;
  const TensorMap* ptr1;
  ptr1 = &var0;
  float* T2 = reinterpret_cast<float*>(array + smem_offset + 0);
  bool b2;
  b2 = ((nvfuser_index_t)threadIdx.x) < 32ULL;
  #pragma unroll 1
  for(nvfuser_index_t i3 = 0; i3 < T0.logical_size[0LL]; ++i3) {
    #pragma unroll
    for(nvfuser_index_t i4 = 0; i4 < 32; ++i4) {
      float T1[1LL];
      T1[0LL] = T0[((4096 * i3) + (128 * i4)) + ((nvfuser_index_t)threadIdx.x)];
      T2[((128 * i4) + ((nvfuser_index_t)threadIdx.x))] = relu(T1[0LL]);
    }
    __syncthreads();
    if (b2) {
      fenceAsyncProxy();
      if (Hopper::electSync(4294967295U)) {
        #pragma unroll
        for(nvfuser_index_t i5 = 0; i5 < 4; ++i5) {
          Hopper::cpAsyncBulkTensorTileS2G((Hopper::CpAsyncBulkTensorTileS2GIndex<2>{ ptr1, (Array<nvfuser_index_t, 2, 1>{(32 * i5), (32 * i3)}) }), toSmem((&T2[(1024 * i5)])));
        }
      }
    }
    __syncthreads();
    cpAsyncBulkCommitGroup();
    cpAsyncBulkWaitGroup<0LL>();
  }
}
