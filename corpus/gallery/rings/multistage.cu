// The classic cp.async pipeline of Ampere: three stages, each thread copies 16 bytes.
#define STAGES 3
#define TILE 512
__device__ __forceinline__ void copy16(void* s, const void* g) {
  unsigned a = __cvta_generic_to_shared(s);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(a), "l"(g) : "memory");
}
extern "C" __global__ __launch_bounds__(128) void multistage(const float* src, float* dst, int k_tiles) {
  __shared__ __align__(16) float tile[STAGES][TILE];
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < k_tiles) copy16(&tile[s][threadIdx.x * 4], src + s * TILE + threadIdx.x * 4);
    asm volatile("cp.async.commit_group;\n" ::: "memory");
  }
  for (int k = 0; k < k_tiles; ++k) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    int n = k + STAGES - 1;
    if (n < k_tiles) copy16(&tile[n % STAGES][threadIdx.x * 4], src + n * TILE + threadIdx.x * 4);
    asm volatile("cp.async.commit_group;\n" ::: "memory");
    float acc = 0.f;
    for (int j = 0; j < 4; ++j) acc += tile[k % STAGES][(threadIdx.x + 128 * j + 1) % TILE];
    dst[k * 128 + threadIdx.x] = acc;
  }
}
