// Two warpgroups take turns in a section that only one may be in; a named barrier hands the turn over.
template <int Id, int Threads> __device__ void turn_wait() { asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory"); }
template <int Id, int Threads> __device__ void turn_give() { asm volatile("bar.arrive %0, %1;" ::"n"(Id), "n"(Threads) : "memory"); }

extern "C" __global__ void __launch_bounds__(256) turns(const int* in, int* out, int rounds) {
  __shared__ int scratch[128];
  const int lane = threadIdx.x % 128;
  if (threadIdx.x < 128) {
    for (int k = 0; k < rounds; ++k) {
      if (k) turn_wait<1, 256>();
      scratch[lane] = in[2 * k * 128 + lane];
      turn_wait<3, 128>();
      out[2 * k * 128 + lane] = scratch[127 - lane];
      turn_wait<3, 128>();
      turn_give<2, 256>();
    }
  } else {
    for (int k = 0; k < rounds; ++k) {
      turn_wait<2, 256>();
      scratch[lane] = in[(2 * k + 1) * 128 + lane];
      turn_wait<4, 128>();
      out[(2 * k + 1) * 128 + lane] = scratch[127 - lane];
      turn_wait<4, 128>();
      if (k + 1 < rounds) turn_give<1, 256>();
    }
  }
}
