// A cluster of two blocks: block 0 multicasts each row to both, every reader warp tells block 0 that it is done.
#include <cstdint>
__device__ __forceinline__ uint32_t smem_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
constexpr int NSTAGE = 2;
constexpr uint32_t BYTES = 512;
class ClusterPipe {
 public:
  uint64_t full_[NSTAGE];
  uint64_t drained_[NSTAGE];
  __device__ __forceinline__ void init(int readers) {
    for (int i = 0; i < NSTAGE; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(&full_[i])), "r"(1) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(&drained_[i])), "r"(readers) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __device__ __forceinline__ void announce(int i) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(&full_[i])), "r"(BYTES) : "memory");
  }
  __device__ __forceinline__ void wait_full(int i, uint32_t ph) {
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(smem_u32(&full_[i])), "r"(ph) : "memory");
  }
  __device__ __forceinline__ void wait_drained(int i, uint32_t ph) {
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(smem_u32(&drained_[i])), "r"(ph) : "memory");
  }
  __device__ __forceinline__ void release(int i, uint32_t cta) {
    asm volatile("{\n.reg .b32 ra;\nmapa.shared::cluster.u32 ra, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [ra];\n}" ::"r"(smem_u32(&drained_[i])), "r"(cta) : "memory");
  }
};
__device__ __forceinline__ void multicast(void* dst, const void* src, uint64_t* bar, uint16_t mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(smem_u32(dst)), "l"(src), "r"(BYTES), "r"(smem_u32(bar)), "h"(mask) : "memory");
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(96) mcast(const float* src, float* dst, int rows) {
  __shared__ alignas(128) float buf[NSTAGE][BYTES / 4];
  __shared__ ClusterPipe pipe;
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) pipe.init(4);
  cluster_sync();
  if (warp == 0) {
    if (lane == 0) {
      for (int r = 0; r < rows; ++r) {
        const int st = r & 1;
        if (rank == 0) pipe.wait_drained(st, (r >> 1 & 1) ^ 1);
        pipe.announce(st);
        if (rank == 0) multicast(buf[st], src + r * 128, &pipe.full_[st], 0x3);
        if (rank != 0) pipe.wait_full(st, r >> 1 & 1);
      }
    }
  } else {
    float acc = 0.f;
    for (int r = 0; r < rows; ++r) {
      const int st = r & 1;
      pipe.wait_full(st, r >> 1 & 1);
      acc += buf[st][threadIdx.x - 32] + buf[st][threadIdx.x + 32];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0) pipe.release(st, 0);
    }
    dst[(blockIdx.x * 64) + threadIdx.x - 32] = acc;
  }
  cluster_sync();
}
