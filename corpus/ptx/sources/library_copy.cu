#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
// cuda::memcpy_async fills a row again that all threads have read; on sm_90 it is a bulk copy.
// BAD: no proxy fence before the hand-over: the sums are added behind it, and the copy may come before the loads.
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void library_copy(const float* rows, float* out, int n) {
  __shared__ alignas(16) float row[128];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  block.sync();
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    cuda::memcpy_async(block, row, rows + i * 128, cuda::aligned_size_t<16>(sizeof row), barrier);
    barrier.arrive_and_wait();
    sum += row[127 - threadIdx.x];
#ifndef BAD
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
#endif
    barrier.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}
