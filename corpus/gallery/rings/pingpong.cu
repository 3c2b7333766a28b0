// Two math warpgroups take turns on the tensor cores; a producer warp feeds both through one ring.
using uint = unsigned int;
using u64 = unsigned long long;
namespace pp {
constexpr int kDepth = 4;
constexpr int kBytesA = 64 * 16 * 2, kBytesB = 8 * 16 * 2;
constexpr int kMath = 128;
struct alignas(128) Smem {
  char a[kDepth][kBytesA];
  char b[kDepth][kBytesB];
  u64 loaded[kDepth];
  u64 consumed[kDepth];
  u64 turn[2];
};
__device__ __forceinline__ uint cvta(const void* p) { return (uint)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void mbar_init(u64& b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(cvta(&b)), "r"(count) : "memory"); }
__device__ __forceinline__ void mbar_arrive(u64& b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(cvta(&b)) : "memory"); }
__device__ __forceinline__ void mbar_expect(u64& b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(cvta(&b)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void mbar_wait(u64& b, uint parity) {
  asm volatile("{\n.reg .pred ok;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 ok, [%0], %1;\n@ok bra leave;\nbra again;\nleave:\n}" ::"r"(cvta(&b)), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk_load(void* dst, const void* src, int bytes, u64& b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(cvta(dst)), "l"(src), "r"(bytes), "r"(cvta(&b)) : "memory");
}
__device__ __forceinline__ u64 desc(const void* p) { return (u64)((cvta(p) & 0x3ffff) >> 4) | (8ull << 16) | (16ull << 32); }
__device__ __forceinline__ void gmma(float (&d)[4], u64 a, u64 b, int keep) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;\n}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(keep));
}
__device__ __forceinline__ void gmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void gmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void gmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
}  // namespace pp

extern "C" __global__ void __launch_bounds__(384, 1) pingpong(const char* A, const char* B, float* C, int tiles, int depth) {
  __shared__ pp::Smem sm;
  const int group = threadIdx.x / pp::kMath;
  if (threadIdx.x == 0) {
    for (int s = 0; s < pp::kDepth; ++s) {
      pp::mbar_init(sm.loaded[s], 1);
      pp::mbar_init(sm.consumed[s], pp::kMath);
    }
    pp::mbar_init(sm.turn[0], pp::kMath);
    pp::mbar_init(sm.turn[1], pp::kMath);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (group == 2) {
    if (threadIdx.x == 2 * pp::kMath) {
      int use = 0;
      for (int t = 0; t < 2 * tiles; ++t)
        for (int k = 0; k < 4; ++k, ++use) {
          const int s = use % pp::kDepth;
          pp::mbar_wait(sm.consumed[s], ((use / pp::kDepth) & 1) ^ 1);
          pp::mbar_expect(sm.loaded[s], pp::kBytesA + pp::kBytesB);
          pp::bulk_load(sm.a[s], A + use * pp::kBytesA, pp::kBytesA, sm.loaded[s]);
          pp::bulk_load(sm.b[s], B + use * pp::kBytesB, pp::kBytesB, sm.loaded[s]);
        }
    }
    return;
  }
  for (int t = 0; t < tiles; ++t) {
    float d[4] = {0.f, 0.f, 0.f, 0.f};
    pp::mbar_wait(sm.turn[group], (t & 1) ^ (group == 0));
    for (int k = 0; k < 4; ++k) {
      const int use = (2 * t + group) * 4 + k;
      const int s = use % pp::kDepth;
      pp::mbar_wait(sm.loaded[s], (use / pp::kDepth) & 1);
      pp::gmma_fence();
      pp::gmma(d, pp::desc(sm.a[s]), pp::desc(sm.b[s]), k > 0);
      pp::gmma_commit();
      pp::gmma_wait<0>();
      pp::mbar_arrive(sm.consumed[s]);
    }
    pp::mbar_arrive(sm.turn[group ^ 1]);
    for (int j = 0; j < 4; ++j) C[((2 * t + group) * pp::kMath + threadIdx.x % pp::kMath) * 4 + j] = d[j];
  }
}
