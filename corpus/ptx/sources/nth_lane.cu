#include "ptx.cuh"
// Sixteen lanes of a mask store, each at the place of one of them: the n-th lane at that of the n-th.
// BAD: each stores at the place of the next lane of the mask, which two of them have.
extern "C" __global__ void nth_lane(unsigned* out) {
  __shared__ unsigned row[32];
  unsigned lane = threadIdx.x;
  row[lane] = 0;
  __syncthreads();
  if (lane < 16) {
#ifdef BAD
    unsigned place = __fns(0x55555555, lane, 1);
#else
    unsigned place = __fns(0x55555555, 0, lane + 1);
#endif
    row[place] = lane;
  }
  __syncthreads();
  out[lane] = row[lane];
}
