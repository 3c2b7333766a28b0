// One warp tells four others that a table is there; but only for long inputs.
extern "C" __global__ void __launch_bounds__(160) never_reached(const float* in, float* out, int n) {
  __shared__ float table[128];
  if (threadIdx.x >= 128) {
    for (int i = threadIdx.x - 128; i < 128; i += 32) table[i] = in[i];
    if (n > 3) {
      asm volatile("bar.arrive 1, 160;" ::: "memory");
    }
  } else {
    asm volatile("bar.sync 1, 160;" ::: "memory");
    for (int i = 0; i < n; ++i) out[i * 128 + threadIdx.x] = table[(threadIdx.x + i) % 128];
  }
}
