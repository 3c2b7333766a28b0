#include "common.cuh"

constexpr int S = 2, N = 256;
extern "C" __global__ void __launch_bounds__(288) pingpong(const float* a, float* out, int tiles) {
  __shared__ alignas(128) float buf[S][N];
  __shared__ alignas(128) float res[2][N];
  __shared__ uint64_t full[S], empty[S];
  int wg = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < S; ++i) { mbar_init(&full[i], 1); mbar_init(&empty[i], 128); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (wg == 2) {
    if (threadIdx.x == 256) {
      PipelineState<S> w(0, 1);
      for (int t = 0; t < tiles; ++t, ++w) {
        mbar_wait(&empty[w.index], w.phase);
        mbar_expect_tx(&full[w.index], N * 4);
        bulk_load(buf[w.index], a + t * N, N * 4, &full[w.index]);
      }
    }
  } else {
    PipelineState<S> r(0, 0);
    if (wg == 1) r.advance(1);
    for (int t = wg; t < tiles; t += 2) {
      mbar_wait(&full[r.index], r.phase);
      float x[2];
      for (int i = 0; i < 2; ++i) x[i] = buf[r.index][threadIdx.x % 128 + 128 * i];
      fence_async();
      mbar_arrive(&empty[r.index]);
      if (threadIdx.x % 128 == 0) tma_wait_read<0>();
      named_sync(1, 128);
      for (int i = 0; i < 2; ++i) res[wg][threadIdx.x % 128 + 128 * i] = x[i] + 1;
      fence_async();
      named_sync(1, 128);
      if (threadIdx.x % 128 == 0) { tma_store_1d(out + t * N, res[wg], N * 4); tma_commit(); }
      r.advance(2);
    }
    if (threadIdx.x % 128 == 0) tma_wait_read<0>();
  }
}
