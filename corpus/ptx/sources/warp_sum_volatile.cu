// A warp adds up words that its lanes hand to each other through volatile shared memory.
// BAD: no __syncwarp stands between a lane's store and the other lane's load.
extern "C" __global__ void warp_sum_volatile(const int* in, int* out) {
  __shared__ volatile int words[32];
  int t = threadIdx.x, sum = in[t];
  words[t] = sum;
  for (int step = 16; step > 0; step /= 2) {
#ifdef BAD
    if (t < step) words[t] = sum += words[t + step];
#else
    __syncwarp();
    if (t < step) words[t] = sum += words[t + step];
#endif
  }
  if (t == 0) out[0] = sum;
}
