// Two blocks of a cluster share each line: one block fetches it for both (in turn), both scale it by a neighbour's edge
// value that they read from each other.
#include <cooperative_groups.h>
#include <cstdint>
namespace cg = cooperative_groups;
#define SADDR(p) ((uint32_t)__cvta_generic_to_shared(p))
static const int LINE = 512;
struct Sync {
  uint64_t landed[2];   // the line is there, in this block
  uint64_t drained[2];  // both blocks have read it; of the block that fetches
};
static __device__ __forceinline__ void multicast(void* dst, const void* src, uint64_t* bar, unsigned short blocks) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
               ::"r"(SADDR(dst)), "l"(src), "r"(LINE * 4), "r"(SADDR(bar)), "h"(blocks) : "memory");
}
static __device__ __forceinline__ void expect(uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SADDR(bar)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void tell(uint64_t* bar, int block) {
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
               ::"r"(SADDR(bar)), "r"(block) : "memory");
}
static __device__ __forceinline__ void sleep_on(uint64_t* bar, int phase) {
  asm volatile("{ .reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}"
               ::"r"(SADDR(bar)), "r"(phase) : "memory");
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) halo(const float* in, float* out, int lines) {
  __shared__ alignas(128) float line[2][LINE];
  __shared__ float edge;
  __shared__ Sync sync;
  cg::cluster_group cluster = cg::this_cluster();
  const int me = cluster.block_rank();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SADDR(&sync.landed[i])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" ::"r"(SADDR(&sync.drained[i])));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    edge = me;
  }
  cluster.sync();
  const float other = *cluster.map_shared_rank(&edge, me ^ 1);
  for (int n = 0; n < lines; n++) {
    const int b = n & 1, round = n >> 1 & 1;
    if (threadIdx.x == 0) {
      expect(&sync.landed[b], LINE * 4);
      if (me == b) {
        sleep_on(&sync.drained[b], round ^ 1);
        multicast(line[b], in + (size_t)((blockIdx.x >> 1) * lines + n) * LINE, &sync.landed[b], 3);
      }
    }
    sleep_on(&sync.landed[b], round);
    float sum = 0.f;
    for (int i = threadIdx.x; i < LINE; i += 128) sum += line[b][i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) tell(&sync.drained[b], b);
    __syncthreads();
    out[(size_t)(blockIdx.x * lines + n) * 128 + threadIdx.x] = sum * other;
  }
  cluster.sync();
}
