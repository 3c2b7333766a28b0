#include "barrier.cuh"
// One warpgroup fills a box whenever the other one has handed it over; the readers hand it over first.
constexpr int kFilled = 3, kTaken = 5;
extern "C" __global__ void __launch_bounds__(256) turnover(const float* in, float* out, int n) {
  __shared__ float box[128];
  const int t = threadIdx.x % 128;
  if (threadIdx.x < 128) {
    for (int k = 0; k < n; k++) {
      group_sync<kTaken, 256>();
      box[t] = in[k * 128 + t];
      group_arrive<kFilled, 256>();
    }
  } else {
    group_arrive<kTaken, 256>();
    for (int k = 0; k < n; k++) {
      group_sync<kFilled, 256>();
      out[k * 128 + t] = box[127 - t];
      if (k + 1 < n) group_arrive<kTaken, 256>();
    }
  }
}
