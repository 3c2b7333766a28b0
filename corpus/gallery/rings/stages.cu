// Every thread copies into four stages; libcu++ barriers tell when a stage is full and when it may be filled again.
#include <cuda/barrier>
#include <cooperative_groups.h>

using block_barrier = cuda::barrier<cuda::thread_scope_block>;
constexpr int kStages = 4;
constexpr int kThreads = 128;
constexpr int kFilterers = 64;

__device__ __forceinline__ void copy_element(float4* to, const float4* from) {
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void arrive_when_copied(block_barrier& bar) {
  auto* handle = cuda::device::barrier_native_handle(bar);
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(handle));
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
}

extern "C" __global__ void __launch_bounds__(kThreads) stages(const float4* in, float4* out, int chunks) {
  __shared__ float4 tile[kStages][kFilterers];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ block_barrier full[kStages];
  __shared__ block_barrier empty[kStages];
  if (threadIdx.x < kStages) {
    init(&full[threadIdx.x], kFilterers);
    init(&empty[threadIdx.x], kFilterers);
  }
  __syncthreads();

  const int lane = threadIdx.x % kFilterers;
  if (threadIdx.x < kFilterers) {
    for (int c = 0; c < chunks; ++c) {
      const int s = c % kStages;
      if (c >= kStages) empty[s].wait_parity(((c / kStages) - 1) & 1);
      copy_element(&tile[s][lane], in + c * kFilterers + lane);
      arrive_when_copied(full[s]);
    }
  } else {
    for (int c = 0; c < chunks; ++c) {
      const int s = c % kStages;
      full[s].wait_parity((c / kStages) & 1);
      const float4 left = tile[s][(lane + kFilterers - 1) % kFilterers];
      const float4 right = tile[s][(lane + 1) % kFilterers];
      auto token = empty[s].arrive();
      (void)token;
      out[c * kFilterers + lane] = make_float4(left.x + right.x, left.y + right.y, left.z + right.z, left.w + right.w);
    }
  }
}
