// Each of two consumer groups has its own ring; one loader thread feeds both.
using bar_t = unsigned long long;
static __device__ __forceinline__ unsigned s32(const void* q) { return __cvta_generic_to_shared(q); }
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(s32(b)) : "memory")
#define WAIT(b, ph)                                                                                     \
  do {                                                                                                  \
    unsigned ok_;                                                                                       \
    do {                                                                                                \
      asm volatile("{.reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2; selp.u32 %0,1,0,q;}" \
                   : "=r"(ok_) : "r"(s32(b)), "r"(ph) : "memory");                                       \
    } while (!ok_);                                                                                     \
  } while (0)
static __device__ void tx(bar_t* b, float* d, const float* s) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(s32(b)) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(s32(d)),
               "l"(s), "r"(s32(b)) : "memory");
}
extern "C" __global__ void __launch_bounds__(288) halves(const float* x, float* y, int n) {
  __shared__ alignas(16) float q[2][2][128];  // group, slot
  __shared__ bar_t got[2][2], took[2][2];
  const int g = threadIdx.x / 128;
  if (threadIdx.x < 4) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(s32(&got[threadIdx.x / 2][threadIdx.x % 2])) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(s32(&took[threadIdx.x / 2][threadIdx.x % 2])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (g == 2) {
    if (threadIdx.x == 256)
      for (int i = 0; i < n; ++i)
        for (int h = 0; h < 2; ++h) {
          WAIT(&took[h][i & 1], (i / 2 + 1) & 1);
          tx(&got[h][i & 1], q[h][i & 1], x + (2 * i + h) * 128);
        }
  } else {
    for (int i = 0; i < n; ++i) {
      WAIT(&got[g][i & 1], (i / 2) & 1);
      float v = q[g][i & 1][threadIdx.x % 128];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      if (v < 0.f) v = 0.f;
      ARRIVE(&took[g][i & 1]);
      y[(2 * i + g) * 128 + threadIdx.x % 128] = v;
    }
  }
}
