#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/std/utility>
// What is read of a row that cuda::memcpy_async fills is stored before the row is handed over: no load is on its way.
// BAD: the store comes behind the hand-over.
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void library_copy_stored(const float* rows, float* out, int n) {
  __shared__ alignas(16) float row[128];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  block.sync();
  for (int i = 0; i < n; ++i) {
    cuda::memcpy_async(block, row, rows + i * 128, cuda::aligned_size_t<16>(sizeof row), barrier);
    barrier.arrive_and_wait();
    float word = row[127 - threadIdx.x];
#ifdef BAD
    barrier.arrive_and_wait();
    out[i * 128 + threadIdx.x] = word;
#else
    out[i * 128 + threadIdx.x] = word;
    barrier.arrive_and_wait();
#endif
  }
}
