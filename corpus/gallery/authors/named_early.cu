#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) named(const float* a, float* out, int n) {
  __shared__ float box[128];
  bool writer = threadIdx.x < 128;
  for (int k = 0; k < n; ++k) {
    if (writer) {
      named_sync(2, 256);
      box[threadIdx.x] = a[k * 128 + threadIdx.x];
      named_arrive(1, 256);
    } else {
      if (k == 0) named_arrive(2, 256);
      named_sync(1, 256);
      if (k + 1 < n) named_arrive(2, 256);
      out[k * 128 + threadIdx.x - 128] = box[(threadIdx.x + 1) % 128];
    }
  }
}
