#include "ptx.cuh"
// Tiles go out by bulk copies from two buffers in turn; the compiler unrolls the loop, and a last tile is left.
// BAD: the wait leaves two groups open, so that threads overwrite a tile that is still being read.
extern "C" __global__ void two_tiles_stored(const float* in, float* out, int tiles) {
  __shared__ alignas(128) float tile[2][128];
#ifdef BAD
  constexpr int OPEN = 2;
#else
  constexpr int OPEN = 1;
#endif
  int t = threadIdx.x;
#pragma unroll 2
  for (int i = 0; i < tiles; i++) {
    if (t == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(OPEN) : "memory");
    __syncthreads();
    tile[i % 2][t] = in[(size_t)i * 128 + t] + 1.f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
      bulk_store(out + (size_t)i * 128, tile[i % 2], 512);
      bulk_commit();
    }
  }
  if (t == 0) bulk_wait_read();
}
