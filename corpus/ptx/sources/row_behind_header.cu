#include "ptx.cuh"
// Rows of 128 numbers behind a header: each block loads its row by a bulk copy, which asks for multiples of 16 bytes.
// BAD: the header has 8 bytes, not 16.
#ifdef BAD
constexpr int header = 2;
#else
constexpr int header = 4;
#endif
extern "C" __global__ void row_behind_header(const float* in, float* out) {
  __shared__ alignas(128) float row[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    fence_barrier_init();
    arrive_expect(&full, 512);
    bulk_load(row, in + header + blockIdx.x * 128, 512, &full);
  }
  __syncthreads();
  wait(&full, 0);
  out[blockIdx.x * 128 + threadIdx.x] = row[threadIdx.x];
}
