// Each thread takes a number by an atomic, and fills the slot that is its remainder.
// BAD: there is a slot less than threads, and two of them fill one.
extern "C" __global__ void slot_modulo(const int* in, int* out) {
  __shared__ int slot[96];
  __shared__ unsigned count;
  int t = threadIdx.x;
  if (t == 0) count = 0;
  __syncthreads();
#ifdef BAD
  slot[atomicAdd(&count, 1u) % 95] = in[t];
#else
  slot[atomicAdd(&count, 1u) % 96] = in[t];
#endif
  __syncthreads();
  out[t] = slot[t];
}
