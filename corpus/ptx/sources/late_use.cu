#include "ptx.cuh"
// A prefetch ring of one stage: 128 threads read a row each, one of them refills the stage.
// BAD: the value read is used after the stage was given back, without a proxy fence between.
extern "C" __global__ void late_use(const float* in, float* out, int n) {
  __shared__ alignas(128) float row[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barrier_init(&empty, 128);
    fence_barrier_init();
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < n; i++) {
    if (threadIdx.x == 0) {
      wait(&empty, (i + 1) % 2);
      arrive_expect(&full, 512);
      bulk_load(row, in + i * 128, 512, &full);
    }
    wait(&full, i % 2);
    float x;  // volatile: both stay where they are
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(shared_address(&row[threadIdx.x])));
#ifdef BAD
    arrive(&empty);
    asm volatile("fma.rn.f32 %0, %1, %1, %0;" : "+f"(sum) : "f"(x));
#else
    asm volatile("fma.rn.f32 %0, %1, %1, %0;" : "+f"(sum) : "f"(x));
    fence_async_shared();  // the sum alone would not do: ptxas moves it behind the arrive
    arrive(&empty);
#endif
  }
  out[threadIdx.x] = sum;
}
