// Producer warps copy tiles with cp.async, consumer warps add them up; named barriers alone hand the two buffers over.
constexpr int kFull = 1, kEmpty = 3, kBuffers = 2, kThreads = 128;

__device__ __forceinline__ void sync_at(int id) { asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory"); }
__device__ __forceinline__ void arrive_at(int id) { asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "n"(kThreads) : "memory"); }
__device__ __forceinline__ void fetch16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void fetched() {
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(kThreads) named(const float4* src, float* dst, int tiles) {
  __shared__ alignas(16) float4 buffer[kBuffers][64];
  const int lane = threadIdx.x & 63;
  if (threadIdx.x < 64) {
    for (int t = 0; t < tiles; ++t) {
      const int b = t & 1;
      if (t >= kBuffers) sync_at(kEmpty + b);
      fetch16(&buffer[b][lane], src + t * 64 + lane);
      fetched();
      arrive_at(kFull + b);
    }
  } else {
    float total = 0.f;
    for (int t = 0; t < tiles; ++t) {
      const int b = t & 1;
      sync_at(kFull + b);
      const float4 v = buffer[b][63 - lane];
      total += v.x + v.y + v.z + v.w;
      if (t + kBuffers < tiles) arrive_at(kEmpty + b);
    }
    dst[blockIdx.x * 64 + lane] = total;
  }
}
