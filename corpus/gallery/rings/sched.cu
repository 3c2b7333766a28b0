// A persistent block: one thread draws tiles and tells a loader and two compute warps through shared memory.
#include <cstdint>
#define FORCE __device__ __forceinline__
namespace smem {
FORCE uint32_t addr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
}
struct Mbar {
  uint64_t raw;
  FORCE void setup(int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem::addr(&raw)), "r"(arrivals) : "memory"); }
  FORCE void hit() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem::addr(&raw)) : "memory"); }
  FORCE void hit_tx(int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem::addr(&raw)), "r"(bytes) : "memory"); }
  FORCE bool done(uint32_t par) {
    uint32_t r;
    asm volatile("{\n.reg .pred q;\nmbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2;\nselp.b32 %0, 1, 0, q;\n}" : "=r"(r) : "r"(smem::addr(&raw)), "r"(par) : "memory");
    return r != 0;
  }
  FORCE void sleep(uint32_t par) { while (!done(par)) {} }
};
struct Shared {
  alignas(128) float tile[2][512];
  int next[2];
  Mbar work, taken;      // a tile's number is there, was read
  Mbar in[2], out[2];    // a tile's data are there, were read
};
FORCE void fetch(float* to, const float* from, int bytes, Mbar& b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem::addr(to)), "l"(from), "r"(bytes), "r"(smem::addr(&b)) : "memory");
}
FORCE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(128) sched(const float* src, float* dst, int tiles) {
  __shared__ Shared sh;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    sh.work.setup(1);
    sh.taken.setup(65);
    for (int i = 0; i < 2; ++i) {
      sh.in[i].setup(1);
      sh.out[i].setup(64);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp == 0) {
    if (lane == 0) {
      for (int t = 0; t < tiles; ++t) {
        sh.taken.sleep((t & 1) ^ 1);
        sh.next[0] = t;
        sh.work.hit();
      }
    }
  } else if (warp == 1) {
    if (lane == 0) {
      for (int t = 0; t < tiles; ++t) {
        sh.work.sleep(t & 1);
        const int mine = sh.next[0];
        sh.taken.hit();
        const int s = t & 1;
        sh.out[s].sleep((t >> 1 & 1) ^ 1);
        sh.in[s].hit_tx(2048);
        fetch(sh.tile[s], src + (size_t)mine * 512, 2048, sh.in[s]);
      }
    }
  } else {
    const int me = threadIdx.x - 64;
    for (int t = 0; t < tiles; ++t) {
      sh.work.sleep(t & 1);
      const int mine = sh.next[0];
      sh.taken.hit();
      const int s = t & 1;
      sh.in[s].sleep(t >> 1 & 1);
      float sum = 0.f;
      for (int j = 0; j < 8; ++j) sum += sh.tile[s][me + 64 * j];
      proxy_fence();
      sh.out[s].hit();
      dst[(size_t)mine * 64 + me] = sum;
    }
  }
}
