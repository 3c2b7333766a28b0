// One warpgroup multiplies what a producer warp loads; registers are moved from the one to the other.
namespace k {
constexpr int Stages = 3, A = 64 * 16 * 2, B = 8 * 16 * 2;
__device__ inline unsigned u32(void* p) { return (unsigned)__cvta_generic_to_shared(p); }
struct Barrier {
  unsigned long long word;
  __device__ void init(int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(u32(this)), "r"(n) : "memory"); }
  __device__ void expect(int n) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(u32(this)), "r"(n) : "memory"); }
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(u32(this)) : "memory"); }
  __device__ void wait(unsigned parity) {
    unsigned done = 0;
    while (!done)
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                   : "=r"(done) : "r"(u32(this)), "r"(parity) : "memory");
  }
};
__device__ inline void load(void* s, const void* g, int n, Barrier* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(u32(s)),
               "l"(g), "r"(n), "r"(u32(b)) : "memory");
}
__device__ inline unsigned long long descriptor(void* s) {
  return (unsigned long long)((u32(s) & 0x3ffff) >> 4) | ((8ull) << 16) | ((16ull) << 32);
}
__device__ inline void mma(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
}  // namespace k

extern "C" __global__ void __launch_bounds__(256, 1) gemm64(const char* a, const char* b, float* c, int steps) {
  __shared__ alignas(128) char sa[k::Stages][k::A];
  __shared__ alignas(128) char sb[k::Stages][k::B];
  __shared__ k::Barrier full[k::Stages], empty[k::Stages];
  if (threadIdx.x == 0)
    for (int i = 0; i < k::Stages; ++i) full[i].init(1), empty[i].init(1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int i = 0; i < steps; ++i) {
        int s = i % k::Stages;
        empty[s].wait((i / k::Stages & 1) ^ 1);
        full[s].expect(k::A + k::B);
        k::load(sa[s], a + i * k::A, k::A, &full[s]);
        k::load(sb[s], b + i * k::B, k::B, &full[s]);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[4] = {0, 0, 0, 0};
    for (int i = 0; i < steps; ++i) {
      int s = i % k::Stages;
      full[s].wait(i / k::Stages & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      k::mma(d, k::descriptor(sa[s]), k::descriptor(sb[s]));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x == 128) empty[s].arrive();
    }
    for (int j = 0; j < 4; ++j) c[(threadIdx.x - 128) * 4 + j] = d[j];
  }
}
