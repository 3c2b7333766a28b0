#include "barrier.cuh"
// Two blocks of a cluster: each fetches one half for both; readers release to both.
constexpr int kRing = 2, kVec = 256;
__device__ __forceinline__ u32 my_rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void all_blocks() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void load_both(void* dst, const void* src, u32 bytes, Barrier& b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(saddr(dst)), "l"(src), "r"(bytes), "r"(saddr(&b.word)), "h"((u16)3) : "memory");
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160) cluster(const float* in, float* out, int count) {
  __shared__ alignas(128) float vec[kRing][kVec];
  __shared__ Barrier full[kRing];
  __shared__ Barrier free_slot[kRing];
  const u32 rank = my_rank();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRing; i++) {
      full[i].init(1);
      free_slot[i].init(8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  all_blocks();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int k = 0; k < count; k++) {
        const int i = k % kRing;
        free_slot[i].wait_cluster(((k / kRing) + 1) & 1);
        full[i].expect(kVec * 4);
        load_both(&vec[i][rank * 128], in + k * kVec + rank * 128, kVec * 2, full[i]);
      }
    }
  } else {
    float sum = 0.f;
    for (int k = 0; k < count; k++) {
      const int i = k % kRing;
      full[i].wait((k / kRing) & 1);
      sum += vec[i][threadIdx.x] + vec[i][threadIdx.x + 128];
      fence_view_async();
      __syncwarp();
      if (threadIdx.x % 32 < 2) free_slot[i].arrive_remote(threadIdx.x % 32);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
  }
  all_blocks();
}
