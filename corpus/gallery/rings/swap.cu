// Two blocks of a cluster exchange halves through distributed shared memory.
__device__ __forceinline__ unsigned rank_in_cluster() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ unsigned in_block(unsigned addr, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
  return r;
}
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) swap_halves(const float* in, float* out) {
  __shared__ float half[128];
  __shared__ float sums[4];
  const unsigned me = rank_in_cluster();
  half[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
  cluster_arrive();
  cluster_wait();
  float theirs;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(theirs)
               : "r"(in_block((unsigned)__cvta_generic_to_shared(&half[threadIdx.x]), me ^ 1)) : "memory");
  float v = theirs;
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  out[blockIdx.x * 128 + threadIdx.x] = theirs + sums[0] + sums[1] + sums[2] + sums[3];
  cluster_arrive();
  cluster_wait();
}
