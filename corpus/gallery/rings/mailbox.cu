// Cluster of two: each block sums its half, sends it to the other with st.async, and waits for what it gets.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

struct Mailbox {
  unsigned long long arrived;
  float value[4];
};

__device__ __forceinline__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned at_peer(unsigned a, unsigned rank) {
  unsigned r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));
  return r;
}
__device__ __forceinline__ void send(unsigned slot, float v, unsigned bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(slot), "f"(v), "r"(bar) : "memory");
}
__device__ __forceinline__ void expect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void await(unsigned bar, unsigned parity) {
  asm volatile("{\n.reg .pred ok;\nTRY:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ok, [%0], %1;\n@!ok bra TRY;\n}" ::"r"(bar), "r"(parity) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) normalize(const float* x, float* y, int rounds) {
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ Mailbox box;
  const unsigned peer = cluster.block_rank() ^ 1;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&box.arrived)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster.sync();
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x == 0) expect(smem(&box.arrived), 16);
    float v = x[i * 128 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) send(at_peer(smem(&box.value[warp]), peer), v, at_peer(smem(&box.arrived), peer));
    await(smem(&box.arrived), i & 1);
    float other = box.value[0] + box.value[1] + box.value[2] + box.value[3];
    y[i * 128 + threadIdx.x] = v / other;
    cluster.sync();
  }
}
