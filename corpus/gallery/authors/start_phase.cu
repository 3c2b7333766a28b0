#include "common.cuh"
constexpr int STAGES = 4, TILE = 64 * 64;
struct Shared {
  alignas(1024) float a[STAGES][TILE];
  uint64_t full[STAGES], empty[STAGES];
};
extern "C" __global__ void __launch_bounds__(256) tma_ring(const __grid_constant__ TensorMap map_a, float* out, int k_tiles) {
  extern __shared__ __align__(1024) char raw[];
  Shared& s = *reinterpret_cast<Shared*>(raw);
  int wg = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) { mbar_init(&s.full[i], 1); mbar_init(&s.empty[i], 1); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (wg == 0) {
    if (threadIdx.x == 0) {
      PipelineState<STAGES> write(0, 0);
      for (int k = 0; k < k_tiles; ++k, ++write) {
        mbar_wait(&s.empty[write.index], write.phase);
        mbar_expect_tx(&s.full[write.index], TILE * 4);
        tma_load_2d(s.a[write.index], &map_a, &s.full[write.index], k * 64, blockIdx.x * 64);
      }
    }
  } else {
    PipelineState<STAGES> read(0, 0);
    float acc = 0;
    for (int k = 0; k < k_tiles; ++k, ++read) {
      mbar_wait(&s.full[read.index], read.phase);
      for (int i = threadIdx.x - 128; i < TILE; i += 128) acc += s.a[read.index][i];
      fence_async();
      named_sync(1, 128);
      if (threadIdx.x == 128) mbar_arrive(&s.empty[read.index]);
    }
    out[blockIdx.x * 128 + threadIdx.x - 128] = acc;
  }
}
