#include "common.cuh"
// Thread 0 waits for the tile once more before it stores: that is no mistake; the fence before the store is missing.
constexpr int N = 512;
extern "C" __global__ void __launch_bounds__(128) waited_again(const float* in, float* out) {
  __shared__ alignas(128) float tile[N], sums[N];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) mbar_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_expect_tx(&full, N * 4);
    bulk_load(tile, in + blockIdx.x * N, N * 4, &full);
  }
  mbar_wait(&full, 0);
  for (int i = threadIdx.x; i < N; i += 128) sums[i] = tile[i] + tile[N - 1 - i];
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_wait(&full, 0);
    tma_store_1d(out + blockIdx.x * N, sums, N * 4);
    tma_commit();
    tma_wait_read<0>();
  }
}
