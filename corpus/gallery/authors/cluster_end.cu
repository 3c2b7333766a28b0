#include "common.cuh"

constexpr int S = 2, N = 256;
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160) multicast(const float* a, float* out, int tiles) {
  __shared__ alignas(128) float buf[S][N];
  __shared__ uint64_t full[S], empty[S];
  uint32_t rank = cta_rank();
  if (threadIdx.x == 0) {
    for (int i = 0; i < S; ++i) { mbar_init(&full[i], 1); mbar_init(&empty[i], 8); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  int warp = threadIdx.x / 32;
  if (warp == 4) {
    if (threadIdx.x == 128) {
      for (int t = 0; t < tiles; ++t) {
        int s = t % S;
        mbar_wait(&empty[s], (t / S + 1) & 1);
        mbar_expect_tx(&full[s], N * 4);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
          ::"r"(smem_u32(&buf[s][rank * 128])), "l"(a + t * N + rank * 128), "r"(N * 2), "r"(smem_u32(&full[s])), "h"((uint16_t)3) : "memory");
      }
    }
  } else {
    float sum = 0;
    for (int t = 0; t < tiles; ++t) {
      int s = t % S;
      mbar_wait(&full[s], (t / S) & 1);
      sum += buf[s][threadIdx.x] + buf[s][threadIdx.x + 128];
      fence_async();
      __syncwarp();
      if (threadIdx.x % 32 == 0) { mbar_arrive_cluster(&empty[s], 0); mbar_arrive_cluster(&empty[s], 1); }
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
  }
}
