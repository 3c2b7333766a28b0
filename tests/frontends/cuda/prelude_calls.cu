// One call of each function of the nvFuser prelude; it only has to compile.
template <nvfuser_index_t in0>
__device__ __inline__ void decreaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n"::"n"(in0));
}
__global__ void __launch_bounds__(/*maxThreadsPerBlock=*/384, /*minBlocksPerMultiprocessor=*/1) __cluster_dims__(2, 1, 1)
calls(Tensor<float, 2, 2> T0, Tensor<__half, 1, 1> T1, const __grid_constant__ TensorMap map0,
                      int64_t* semaphore) {
  alignas(16) extern __shared__ char array[];
  NVFUSER_DEFINE_MAGIC_ZERO;
  const TensorMap* map = &map0;
  float* T2 = reinterpret_cast<float*>(array + 1024);
  const uint32_t bar = toSmem(array), data = toSmem(T2);
  mbarrier::init(bar, 1U);
  uint64_t token = mbarrier::arriveExpectTX(bar, 64U);
  mbarrier::wait(bar, token);
  mbarrier::waitParity(bar, 1U);
  mbarrier::arrive(bar);
  mbarrier::arrive(bar, 1U);
  if (Hopper::electSync(4294967295U)) mbarrier::inval(bar);
  Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{T0.data + ceilDiv(T0.logical_size[0LL], 4), 64U, bar}), data);
  Hopper::cpAsyncBulkS2G((Hopper::CpAsyncBulkS2GIndex{T0.data, 64U}), data);
  Array<nvfuser_index_t, 1, 1> c1{1LL};
  Array<nvfuser_index_t, 3, 1> c3{1LL, 2LL, 3LL};
  Array<nvfuser_index_t, 5, 1> c5{1LL, 2LL, 3LL, 4LL, 5LL};
  Hopper::cpAsyncBulkTensorTileG2S((Hopper::CpAsyncBulkTensorTileG2SIndex<1>{map, c1, bar}), data);
  Hopper::cpAsyncBulkTensorTileG2S((Hopper::CpAsyncBulkTensorTileG2SIndex<5>{map, c5, bar}), data);
  Hopper::cpAsyncBulkTensorTileG2SMulticast((Hopper::CpAsyncBulkTensorTileG2SIndex<3>{map, c3, bar}), data, 3U);
  Hopper::cpAsyncBulkTensorTileS2G((Hopper::CpAsyncBulkTensorTileS2GIndex<3>{map, c3}), data);
  fenceAsyncProxy();
  cpAsyncBulkCommitGroup();
  cpAsyncBulkWaitGroup<1LL>();
  cpAsyncCommitGroup();
  cpAsyncPartialBarrier<2LL>();
  cpAsyncWaitAll();
  increaseRegisters<240LL>();
  decreaseRegisters<40LL>();
  wgmma::fence();
  wgmma::commit();
  wgmma::wait<0LL>();
  Array<uint32_t, 4, 1> frag;
  ldmatrix4(frag, data);
  stmatrix2(data, frag);
  cluster::clusterArriveRelaxed();
  cluster::clusterWait();
  cluster::storeSharedRemote(1.0f, data, bar, 1U);
  pdl::waitForPriorGrid();
  pdl::launchDependentGrid();
  blockSerializeWait<true, false, false>(semaphore);
  blockSerializeRelease<true, false, false>(semaphore);
  grid_sync::sync<true, false, false, true, true>(semaphore[0], 8ULL, DefaultBlockDim());
  block_sync::sync<true>(DefaultBlockDim());
  block_sync::sync<false>(dim3(128, 2, 1));
  float sum = 0.f, all = 0.f;
  auto add = [](float& a, float b) { a = a + b; };
  auto* workspace = reinterpret_cast<float*>(array);
  blockReduce<true, true, false, true>(sum, T2[threadIdx.x], add, workspace, true, true, 0.f, DefaultBlockDim());
  warp::warpReduceTIDX<false, true>(sum, T2[threadIdx.x], add, workspace, true, 0.f, DefaultBlockDim());
  warp::staticWarpAllReduceTIDX<128, true>(sum, T2[1], add, workspace, true, 0.f, DefaultBlockDim());
  broadcast::blockBroadcast<true, false, false, true>(all, sum, workspace, true, DefaultBlockDim());
  nvfuser_index_t i0;
  i0 = 4 * T0.logical_size[1LL];
  uint32_t i1;
  i1 = __to_uint32(i0);
  Hopper::cpAsyncBulkG2S((Hopper::CpAsyncBulkG2SIndex{(T0.data + i0), i1, toSmem(array)}), (data + (i1 * i0)));
  __half* T7 = reinterpret_cast<__half*>(array + 512);
  T7[i0] = 0;
  Array<float, 4, 4> T8;
  ((*reinterpret_cast<Array<float, 4, 1>*>(&T8[0]))).set(0);
  T0[i0] = T8[i0 % 4];
  Array<__bfloat, 2, 2> T9;
  T9[0LL] = __float2bfloat(sum);
  NVFUSER_UPDATE_MAGIC_ZERO;
  loadLocalToGlobal<float, 1, false>(&T0[threadIdx.x + nvfuser_zero], &all);
  T1[threadIdx.x] = __float2half(sigmoid(__half2float(T1[threadIdx.x])));
}
