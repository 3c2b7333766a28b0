// A cluster of two: each block multicasts its half of every tile; at the end the blocks exchange their sums by DSMEM.
#include <cooperative_groups.h>
#include <cstdint>
namespace cg = cooperative_groups;

constexpr unsigned kSlots = 3, kTile = 256, kReaders = 128;

__device__ __forceinline__ uint32_t s32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

struct ClusterBarrier {
  uint64_t state;
  __device__ __forceinline__ void init(uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(s32(&state)), "r"(count) : "memory");
  }
  __device__ __forceinline__ void arrive_and_expect_tx(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(s32(&state)), "r"(bytes) : "memory");
  }
  __device__ __forceinline__ void arrive(uint32_t cta) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(s32(&state)), "r"(cta) : "memory");
  }
  __device__ __forceinline__ void wait(uint32_t phase) {
    asm volatile(
        "{\n.reg .pred P;\nAGAIN:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], %1;\n@!P bra AGAIN;\n}" ::"r"(s32(&state)), "r"(phase) : "memory");
  }
};

struct Storage {
  alignas(128) float tile[kSlots][kTile];
  ClusterBarrier full[kSlots], empty[kSlots];
  float partial[4];
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160)
exchange(const float* in, float* out, int tiles) {
  __shared__ Storage sm;
  cg::cluster_group cluster = cg::this_cluster();
  const uint32_t rank = cluster.block_rank();
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  if (warp == 4 && lane == 0) {
    for (unsigned i = 0; i < kSlots; ++i) {
      sm.full[i].init(1);
      sm.empty[i].init(2 * kReaders / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster.sync();

  if (warp == 4) {
    if (lane == 0) {
      uint32_t slot = 0, phase = 0;
      for (int t = 0; t < tiles; ++t) {
        sm.empty[slot].wait(phase ^ 1);
        sm.full[slot].arrive_and_expect_tx(kTile * sizeof(float));
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
                s32(&sm.tile[slot][rank * (kTile / 2)])),
            "l"(in + t * kTile + rank * (kTile / 2)), "n"(kTile * 2), "r"(s32(&sm.full[slot].state)), "h"((uint16_t)3)
            : "memory");
        if (++slot == kSlots) slot = 0, phase ^= 1;
      }
    }
  } else {
    float sum = 0.f;
    uint32_t slot = 0, phase = 0;
    for (int t = 0; t < tiles; ++t) {
      sm.full[slot].wait(phase);
      sum += sm.tile[slot][threadIdx.x] * sm.tile[slot][kTile - 1 - threadIdx.x];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane < 2) sm.empty[slot].arrive(lane);
      if (++slot == kSlots) slot = 0, phase ^= 1;
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) sm.partial[warp] = sum;
  }
  cluster.sync();
  if (threadIdx.x < 4) {
    const float* other = cluster.map_shared_rank(sm.partial, rank ^ 1);
    out[blockIdx.x * 4 + threadIdx.x] = sm.partial[threadIdx.x] + other[threadIdx.x];
  }
  cluster.sync();
}
