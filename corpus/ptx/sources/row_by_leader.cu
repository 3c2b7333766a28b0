// The first lane of each warp takes a row by an atomic, and all its lanes fill it.
// BAD: rows are one word shorter than a warp, so that the last lane of one and the first of the next share a word.
extern "C" __global__ void row_by_leader(const int* in, int* out) {
  __shared__ int row[64];
  __shared__ unsigned count;
  unsigned t = threadIdx.x, lane = t % 32, mine = 0;
  if (t == 0) count = 0;
  __syncthreads();
  if (lane == 0) mine = atomicAdd(&count, 1u);
  mine = __shfl_sync(~0u, mine, 0);
#ifdef BAD
  row[mine * 31 + lane] = in[t];
#else
  row[mine * 32 + lane] = in[t];
#endif
  __syncthreads();
  out[t] = row[t];
}
