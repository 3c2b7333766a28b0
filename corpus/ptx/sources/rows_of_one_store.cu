#include "ptx.cuh"
// Each warp stores four matrices by one stmatrix, and copies the rows out.
// BAD: a row has 16 bytes, and the lanes name rows 8 bytes apart: lanes of one instruction write the same bytes.
extern "C" __global__ void rows_of_one_store(const uint4* in, uint4* out) {
  __shared__ alignas(128) unsigned char tile[4][512];
  uint4 x = in[threadIdx.x];
  uint32_t r[4] = {x.x, x.y, x.z, x.w};
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#ifdef BAD
  stmatrix4(&tile[warp][lane / 2 * 16], r);
#else
  stmatrix4(&tile[warp][lane * 16], r);
#endif
  __syncwarp();
  out[threadIdx.x] = *reinterpret_cast<uint4*>(&tile[warp][lane * 16]);
}
