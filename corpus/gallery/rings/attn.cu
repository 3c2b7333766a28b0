// Attention without the mathematics: Q once, K and V in a ring each; two reader groups, scores through shared memory.
#include <cstdint>
constexpr int kStages = 2;
constexpr int kRow = 128;                 // floats of one K or V row
constexpr int kBytes = kRow * 4;
constexpr int kGroup = 64;                // threads of a reader group
struct Barriers {
  uint64_t q_full;
  uint64_t k_full[kStages], k_empty[kStages];
  uint64_t v_full[kStages], v_empty[kStages];
};
struct Storage {
  alignas(128) float q[2][kRow];
  alignas(128) float k[kStages][kRow];
  alignas(128) float v[kStages][kRow];
  alignas(128) float p[2][kGroup];
  Barriers bar;
};
__device__ __forceinline__ uint32_t s2u(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void barrier_init(uint64_t* b, uint32_t n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(s2u(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void barrier_arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(s2u(b)) : "memory"); }
__device__ __forceinline__ void barrier_arrive_tx(uint64_t* b, uint32_t n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(s2u(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void barrier_wait(uint64_t* b, uint32_t parity) {
  asm volatile("{\n.reg .pred c;\nspin:\nmbarrier.try_wait.parity.shared::cta.b64 c, [%0], %1;\n@!c bra spin;\n}" ::"r"(s2u(b)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load(void* d, const void* g, uint32_t n, uint64_t* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(s2u(d)), "l"(g), "r"(n), "r"(s2u(b)) : "memory");
}
__device__ __forceinline__ void reads_done() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void named_barrier(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }

extern "C" __global__ void __launch_bounds__(160) attn(const float* Q, const float* K, const float* V, float* O, int blocks) {
  __shared__ Storage s;
  const int wg = threadIdx.x / kGroup, me = threadIdx.x % kGroup;
  if (threadIdx.x == 0) {
    barrier_init(&s.bar.q_full, 1);
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&s.bar.k_full[i], 1);
      barrier_init(&s.bar.v_full[i], 1);
      barrier_init(&s.bar.k_empty[i], 2 * kGroup);
      barrier_init(&s.bar.v_empty[i], 2 * kGroup);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (wg == 2) {
    if (me == 0) {
      barrier_arrive_tx(&s.bar.q_full, 2 * kBytes);
      load(s.q, Q, 2 * kBytes, &s.bar.q_full);
      for (int j = 0; j < blocks; ++j) {
        const int i = j % kStages;
        const uint32_t parity = j / kStages & 1;
        barrier_wait(&s.bar.k_empty[i], parity ^ 1);
        barrier_arrive_tx(&s.bar.k_full[i], kBytes);
        load(s.k[i], K + j * kRow, kBytes, &s.bar.k_full[i]);
        barrier_wait(&s.bar.v_empty[i], parity ^ 1);
        barrier_arrive_tx(&s.bar.v_full[i], kBytes);
        load(s.v[i], V + j * kRow, kBytes, &s.bar.v_full[i]);
      }
    }
  } else {
    float o = 0.f;
    barrier_wait(&s.bar.q_full, 0);
    for (int j = 0; j < blocks; ++j) {
      const int i = j % kStages;
      const uint32_t parity = j / kStages & 1;
      barrier_wait(&s.bar.k_full[i], parity);
      const float x = s.q[wg][me] * s.k[i][me] + s.q[wg][me + 64] * s.k[i][me + 64];
      reads_done();
      barrier_arrive(&s.bar.k_empty[i]);
      s.p[wg][me] = x;
      named_barrier(1 + wg, kGroup);
      float best = 0.f;
      for (int l = 0; l < kGroup; l += 16) best += s.p[wg][(me + l) % kGroup];
      named_barrier(1 + wg, kGroup);
      barrier_wait(&s.bar.v_full[i], parity);
      o += best * s.v[i][me] + s.v[i][me + 64];
      reads_done();
      barrier_arrive(&s.bar.v_empty[i]);
    }
    O[threadIdx.x] = o;
  }
}
