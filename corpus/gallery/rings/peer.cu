// Two blocks of a cluster send each other half of their sums; rows come by cp.async, two in flight.
#include <cstdint>
__device__ __forceinline__ uint32_t to_shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void start_copy(float* s, const float* g) { asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to_shared(s)), "l"(g) : "memory"); }
__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
__device__ __forceinline__ void bar_init(uint64_t* b, uint32_t n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(to_shared(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_expect(uint64_t* b, uint32_t n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(to_shared(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_wait(uint64_t* b, uint32_t parity) {
  asm volatile("{\n.reg .pred y;\nw:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 y, [%0], %1;\n@!y bra w;\n}" ::"r"(to_shared(b)), "r"(parity) : "memory");
}
__device__ __forceinline__ void send(float* slot, float v, uint64_t* b, uint32_t rank) {
  asm volatile("{\n.reg .b32 d, m;\nmapa.shared::cluster.u32 d, %0, %3;\nmapa.shared::cluster.u32 m, %2, %3;\nst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [d], %1, [m];\n}" ::"r"(to_shared(slot)), "f"(v), "r"(to_shared(b)), "r"(rank) : "memory");
}
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) peer(const float* in, float* out, int rows) {
  __shared__ alignas(16) float row[3][256];
  __shared__ float inbox[64];
  __shared__ uint64_t mail;
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    bar_init(&mail, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    bar_expect(&mail, 64 * 4);
  }
  cluster_arrive();
  cluster_wait();
  const float* mine = in + blockIdx.x * rows * 256;
  for (int r = 0; r < 2; ++r) {
    if (r < rows) start_copy(&row[r][threadIdx.x * 4], mine + r * 256 + threadIdx.x * 4);
    close_copies();
  }
  float sum = 0.f;
  for (int r = 0; r < rows; ++r) {
    wait_copies<1>();
    __syncthreads();
    if (r + 2 < rows) start_copy(&row[(r + 2) % 3][threadIdx.x * 4], mine + (r + 2) * 256 + threadIdx.x * 4);
    close_copies();
    for (int j = 0; j < 4; ++j) sum += row[r % 3][threadIdx.x + 64 * j];
  }
  send(&inbox[threadIdx.x], sum, &mail, rank ^ 1);
  bar_wait(&mail, 0);
  out[blockIdx.x * 64 + threadIdx.x] = sum + inbox[threadIdx.x];
  cluster_arrive();
  cluster_wait();
}
