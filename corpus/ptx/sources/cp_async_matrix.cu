#include "ptx.cuh"
// A warp's rows come by cp.async and go to every lane with ldmatrix.
// BAD: each lane waits for its own copies only; no barrier makes the other lanes' rows visible.
extern "C" __global__ void cp_async_matrix(const uint4* in, uint4* out, int n) {
  __shared__ alignas(128) uint4 rows[4][32];
  uint4* mine = &rows[threadIdx.x / 32][threadIdx.x % 32];
  cp_async16(mine, in + threadIdx.x, threadIdx.x < n);
  cp_commit();
  cp_wait_all();
#ifndef BAD
  __syncwarp();
#endif
  uint32_t r[4];
  ldmatrix4(r, mine);
  out[threadIdx.x] = make_uint4(r[0], r[1], r[2], r[3]);
}
