// Two warpgroups fill halves of a tile that a third one reduces; named barriers only.
extern "C" __global__ void __launch_bounds__(384) split(const float* p, const float* q, float* r, int steps) {
  __shared__ float tile[256];
  const int g = threadIdx.x / 128, t = threadIdx.x % 128;
  for (int s = 0; s < steps; ++s) {
    if (g < 2) {
      if (s > 0) asm volatile("bar.sync 5, 384;" ::: "memory");
      tile[g * 128 + t] = (g ? q : p)[s * 128 + t];
      asm volatile("bar.arrive 4, 384;" ::: "memory");
    } else {
      asm volatile("bar.sync 4, 384;" ::: "memory");
      float a = tile[t] + tile[128 + t];
      if (s + 1 < steps) asm volatile("bar.arrive 5, 384;" ::: "memory");
      r[s * 128 + t] = a;
    }
  }
}
