#include "barrier.cuh"
// One slot, filled twice in each turn: keys first, values next; each use has its own parity.
constexpr int kCount = 512;
extern "C" __global__ void __launch_bounds__(128) twice(const float* keys, const float* values, float* out, int turns) {
  __shared__ alignas(128) float slot[kCount];
  __shared__ Barrier here;
  if (threadIdx.x == 0) here.init(1);
  __syncthreads();
  float dot = 0.f;
  for (int t = 0; t < turns; ++t) {
    if (threadIdx.x == 0) {
      here.expect(kCount * 4);
      load_row(slot, keys + t * kCount, kCount * 4, here);
    }
    here.wait(0);
    float k[4];
    for (int i = 0; i < 4; ++i) k[i] = slot[threadIdx.x + 128 * i];
    fence_view_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      here.expect(kCount * 4);
      load_row(slot, values + t * kCount, kCount * 4, here);
    }
    here.wait(1);
    for (int i = 0; i < 4; ++i) dot += k[i] * slot[threadIdx.x + 128 * i];
    fence_view_async();
    __syncthreads();
  }
  out[threadIdx.x] = dot;
}
