#include "ptx.cuh"
// The roles of four warps stand in a table of bytes: 255, and behind it what 256, 257 and 258 leave of it, 0, 1, 2.
// BAD: the barrier of the roles below 3 counts all four warps.
extern "C" __global__ void role_bytes(int* out, int first) {
  __shared__ unsigned char role[4];
  __shared__ int tile[96];
  if (threadIdx.x < 4) role[threadIdx.x] = first + threadIdx.x;
  __syncthreads();
  int mine = role[threadIdx.x / 32];
  if (mine > 2) return;
  tile[mine * 32 + threadIdx.x % 32] = mine;
#ifdef BAD
  asm volatile("bar.sync 1, 128;" ::: "memory");
#else
  asm volatile("bar.sync 1, 96;" ::: "memory");
#endif
  out[threadIdx.x] = tile[(mine + 1) % 3 * 32 + threadIdx.x % 32];
}
