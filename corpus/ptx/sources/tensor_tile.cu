#include "ptx.cuh"
#include <cuda.h>
// A tile of 32 by 32 floats comes by TMA and goes out by TMA. The launch facts give the boxes.
// BAD: the arrival expects half of the tile's bytes.
extern "C" __global__ void tensor_tile(const __grid_constant__ CUtensorMap in,
                                       const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(128) float tile[32][32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    fence_barrier_init();
  }
  __syncthreads();
  int row = 32 * blockIdx.x;
  if (threadIdx.x == 0) {
#ifdef BAD
    arrive_expect(&full, 2048);
#else
    arrive_expect(&full, 4096);
#endif
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(tile)), "l"(&in), "r"(0), "r"(row), "r"(shared_address(&full)) : "memory");
  }
  wait(&full, 0);
  for (int i = threadIdx.x / 32; i < 32; i += 4) tile[i][threadIdx.x % 32] *= 2;
  fence_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&out), "r"(0), "r"(row), "r"(shared_address(tile)) : "memory");
    bulk_commit();
    bulk_wait_read();
  }
}
