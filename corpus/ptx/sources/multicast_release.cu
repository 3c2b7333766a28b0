// Two CTAs of a cluster load one half of each tile and send it to both, through rings of two slots.
// -DBAD: the readers hand a slot back to one of the two producers alone.
#include <cuda.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

static __device__ __forceinline__ void init(uint64_t* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(b)), "r"(n) : "memory");
}

static __device__ __forceinline__ void expect(uint64_t* b, int n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(b)), "r"(n) : "memory");
}

static __device__ __forceinline__ void wait(uint64_t* b, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p; L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @p bra D; bra L; D: }"
      ::"r"(shared(b)), "r"(parity) : "memory");
}

static __device__ __forceinline__ void release(uint64_t* b, uint32_t cta) {
  asm volatile(
      "{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r]; }"
      ::"r"(shared(b)), "r"(cta) : "memory");
}

static __device__ __forceinline__ void load(void* to, const CUtensorMap* map, uint64_t* b, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4}], [%2], %5;"
      ::"r"(shared(to)), "l"(map), "r"(shared(b)), "r"(x), "r"(y), "h"((uint16_t)3) : "memory");
}

static __device__ __forceinline__ void meet() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(64) __cluster_dims__(2, 1, 1)
multicast_release(const __grid_constant__ CUtensorMap map, float* out, int tiles) {
  __shared__ alignas(1024) float tile[2][1024];
  __shared__ alignas(8) uint64_t full[2], empty[2];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      init(&full[i], 1);
      init(&empty[i], 2);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  meet();
  if (warp == 0) {
    if (lane == 0) {
      for (int n = 0; n < tiles; ++n) {
        wait(&empty[n & 1], ((n >> 1) & 1) ^ 1);
        expect(&full[n & 1], 4096);
        load(tile[n & 1] + rank * 512, &map, &full[n & 1], 0, n * 32 + rank * 16);
      }
    }
  } else {
    float sum = 0;
    for (int n = 0; n < tiles; ++n) {
      wait(&full[n & 1], (n >> 1) & 1);
      for (int j = 0; j < 32; ++j) sum += tile[n & 1][j * 32 + lane];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0) {
        release(&empty[n & 1], 0);
#ifndef BAD
        release(&empty[n & 1], 1);
#endif
      }
    }
    out[blockIdx.x * 32 + lane] = sum;
  }
  __syncwarp();
  meet();
}
