#include "ptx.cuh"
// stmatrix writes a tile that a bulk copy stores.
// BAD: the proxy fence names global memory, the tile lies in shared memory.
extern "C" __global__ void matrix_store(const uint4* in, float* out) {
  __shared__ alignas(128) uint4 tile[4][32];
  uint4 x = in[threadIdx.x];
  uint32_t r[4] = {x.x, x.y, x.z, x.w};
  stmatrix4(&tile[threadIdx.x / 32][threadIdx.x % 32], r);
#ifdef BAD
  fence_async_global();
#else
  fence_async_shared();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, tile, sizeof tile);
    bulk_commit();
    bulk_wait_read();
  }
}
