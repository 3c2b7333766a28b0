#include "barrier.cuh"
// Classic multistage pipeline of cp.async; no mbarrier.
constexpr int kSlots = 3, kLine = 1024;
__device__ __forceinline__ void fetch(float* to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(saddr(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left> __device__ __forceinline__ void await_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory"); }
extern "C" __global__ void __launch_bounds__(256) groups(const float* in, float* out, int lines) {
  __shared__ alignas(128) float lane_buf[kSlots][kLine];
  const int at = threadIdx.x * 4;
  for (int k = 0; k < kSlots - 1; ++k) {
    if (k < lines) fetch(&lane_buf[k][at], in + k * kLine + at);
    close_group();
  }
  float sum = 0.f;
  for (int k = 0; k < lines; ++k) {
    await_groups<kSlots - 2>();
    __syncthreads();
    const float* now = lane_buf[k % kSlots];
    for (int i = threadIdx.x; i < kLine; i += 256) sum += now[i];
    const int ahead = k + kSlots - 1;
    if (ahead < lines) fetch(&lane_buf[ahead % kSlots][at], in + ahead * kLine + at);
    close_group();
  }
  out[threadIdx.x] = sum;
}
