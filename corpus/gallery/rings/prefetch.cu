// Two buffers, no roles: thread 0 prefetches the next tile while all work on this one.
typedef unsigned long long u64;
typedef unsigned int u32;
#define SADDR(p) ((u32)__cvta_generic_to_shared(p))
#define N 512

static __device__ __forceinline__ void fetch(float *dst, const float *src, u64 *bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(SADDR(bar)), "r"(N * 4) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(SADDR(dst)), "l"(src), "r"(N * 4), "r"(SADDR(bar)) : "memory");
}

static __device__ __forceinline__ bool test(u64 *bar, u32 parity) {
  u32 ok;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(ok) : "r"(SADDR(bar)), "r"(parity) : "memory");
  return ok != 0;
}

extern "C" __global__ void __launch_bounds__(256) prefetch(const float *x, float *y, int tiles) {
  __shared__ __align__(16) float buf[2][N];
  __shared__ u64 bar[2];
  const int tid = threadIdx.x;
  if (tid == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(SADDR(&bar[0])) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(SADDR(&bar[1])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (tiles > 0) fetch(buf[0], x, &bar[0]);
  }
  __syncthreads();
  for (int i = 0; i < tiles; ++i) {
    const int cur = i & 1;
    if (tid == 0 && i + 1 < tiles) fetch(buf[cur ^ 1], x + (i + 1) * N, &bar[cur ^ 1]);
    while (!test(&bar[cur], (i >> 1) & 1)) { }
    y[i * N + tid] = buf[cur][tid] * 2.0f;
    y[i * N + tid + 256] = buf[cur][tid + 256] * 2.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
  }
}
