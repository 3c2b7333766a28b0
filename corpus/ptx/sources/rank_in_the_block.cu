// Words at the ranks of threads, for a block of any rows by the text, and a read at threadIdx.x alone. Where
// the block has one row, the word is of the same warp. Nothing gives the block, so the kernel is undecided.
// BAD: nothing stands between write and read, and no block makes it right.
extern "C" __global__ void rank_in_the_block(const float* in, float* out) {
  __shared__ float words[1024];
  int rank = threadIdx.y * blockDim.x + threadIdx.x;
  words[rank] = in[rank];
#ifndef BAD
  __syncwarp();
#endif
  out[rank] = words[threadIdx.x ^ 1];
}
