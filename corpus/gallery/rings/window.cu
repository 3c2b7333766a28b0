// libcu++: cuda::barrier with transactions, tokens; everybody reads, thread 0 loads one tile ahead.
#include <cuda/barrier>
#include <cuda/std/utility>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
constexpr int TILE = 1024, THREADS = 128, BUFS = 2;

__device__ void fetch(float* to, const float* from, barrier& b) {
  cde::cp_async_bulk_global_to_shared(to, from, TILE * sizeof(float), b);
}

__global__ void __launch_bounds__(THREADS) window(const float* __restrict__ x, float* __restrict__ y, unsigned tiles) {
  __shared__ alignas(128) float buf[BUFS][TILE];
  __shared__ alignas(128) float result[TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar[BUFS];
  if (threadIdx.x == 0) {
    init(&bar[0], THREADS);
    init(&bar[1], THREADS);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  if (tiles == 0) return;
  barrier::arrival_token token[BUFS];
  if (threadIdx.x == 0) {
    fetch(buf[0], x, bar[0]);
    token[0] = cuda::device::barrier_arrive_tx(bar[0], 1, TILE * sizeof(float));
  } else {
    token[0] = bar[0].arrive();
  }
  for (unsigned i = 0; i < tiles; ++i) {
    const int now = i % BUFS, next = (i + 1) % BUFS;
    if (i + 1 < tiles) {
      if (threadIdx.x == 0) {
        fetch(buf[next], x + (i + 1) * TILE, bar[next]);
        token[next] = cuda::device::barrier_arrive_tx(bar[next], 1, TILE * sizeof(float));
      } else {
        token[next] = bar[next].arrive();
      }
    }
    bar[now].wait(cuda::std::move(token[now]));
    for (int j = threadIdx.x; j < TILE; j += THREADS) result[j] = buf[now][j] + buf[now][(j + 1) % TILE];
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
      cde::cp_async_bulk_shared_to_global(y + i * TILE, result, TILE * sizeof(float));
      cde::cp_async_bulk_commit_group();
      cde::cp_async_bulk_wait_group_read<0>();
    }
    __syncthreads();
  }
}
