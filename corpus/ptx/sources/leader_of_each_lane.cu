// One lane of each warp takes a row by an atomic and hands it to all lanes of its warp.
// BAD: each lane names a leader of its own, and reads from lanes that have taken no row.
extern "C" __global__ void leader_of_each_lane(const int* in, int* out) {
  __shared__ int row[1024];
  __shared__ unsigned count;
  unsigned t = threadIdx.x, lane = t % 32, taken = 0;
  if (t == 0) count = 0;
  __syncthreads();
#ifdef BAD
  unsigned leader = t / 8 % 4;
#else
  unsigned leader = 3;
#endif
  if (lane == leader) taken = atomicAdd(&count, 32u);
  taken = __shfl_sync(~0u, taken, leader);
  row[taken + lane] = in[t];
  __syncthreads();
  out[t] = row[t];
}
