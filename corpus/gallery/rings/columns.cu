// Ampere style GEMM front: cuda_pipeline primitives, four stages, block of 8 warps.
#include <cuda_pipeline.h>

namespace stage {
template <typename T, int N, int ROWS>
struct Ring {
  T slot[N][ROWS][64];
  __device__ T* row(int k, int r) { return slot[k % N][r]; }
};
}  // namespace stage

template <int DEPTH>
__device__ void prefetch(stage::Ring<float, DEPTH, 16>& ring, const float* g, int k) {
  const int r = threadIdx.x / 16, c = threadIdx.x % 16 * 4;
  __pipeline_memcpy_async(ring.row(k, r) + c, g + k * 1024 + r * 64 + c, 16);
}

template <int DEPTH>
__device__ float column_dot(stage::Ring<float, DEPTH, 16>& ring, int k) {
  float acc = 0.f;
#pragma unroll
  for (int r = 0; r < 16; ++r) acc += ring.row(k, r)[threadIdx.x % 64];
  return acc;
}

template <int DEPTH>
__device__ void run(const float* g, float* out, int k_iters) {
  __shared__ alignas(16) stage::Ring<float, DEPTH, 16> ring;
  for (int k = 0; k < DEPTH - 1; ++k) {
    if (k < k_iters) prefetch<DEPTH>(ring, g, k);
    __pipeline_commit();
  }
  float acc = 0.f;
  for (int k = 0; k < k_iters; ++k) {
    __pipeline_wait_prior(DEPTH - 2);
    __syncthreads();
    acc += column_dot<DEPTH>(ring, k);
    if (k + DEPTH - 1 < k_iters) prefetch<DEPTH>(ring, g, k + DEPTH - 1);
    __pipeline_commit();
  }
  out[blockIdx.x * 256 + threadIdx.x] = acc;
}

extern "C" __global__ void __launch_bounds__(256) column_sums(const float* g, float* out, int k_iters) {
  run<4>(g, out, k_iters);
}
