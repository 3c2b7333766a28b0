// Which barriers wait for lanes and warps that have left the kernel, or that go round them?
//
//   nvcc -arch=sm_90a -o barriers_and_exits barriers_and_exits.cu && timeout -s KILL 2 ./barriers_and_exits MODE N THREADS
//
// Modes 0 to 3: threads from N on return first. 10 to 13: they go round the barrier. 20 to 23: half warps make
// fewer turns (N: whether the rest stores behind the loop). The last digit names the barrier: bar.sync without and
// with a count, barrier.sync without and with one.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__global__ void k(int mode, int n, int* out) {
  __shared__ int s[1024];
  int t = threadIdx.x, T = blockDim.x;
  if (mode < 10) {
    if (t >= n) return;
    s[t] = t;
    if (mode == 0) asm volatile("bar.sync 1;" ::: "memory");
    if (mode == 1) asm volatile("bar.sync 1, %0;" :: "r"(T) : "memory");
    if (mode == 2) asm volatile("barrier.sync 1;" ::: "memory");
    if (mode == 3) asm volatile("barrier.sync 1, %0;" :: "r"(T) : "memory");
    out[t] = s[n - 1 - t];
  } else if (mode < 20) {
    volatile int* v = s;
    v[t] = t;
    if (t < n) {
      if (mode == 10) asm volatile("bar.sync 1;" ::: "memory");
      if (mode == 11) asm volatile("bar.sync 1, %0;" :: "r"(T) : "memory");
      if (mode == 12) asm volatile("barrier.sync 1;" ::: "memory");
      if (mode == 13) asm volatile("barrier.sync 1, %0;" :: "r"(T) : "memory");
      out[t] = v[n - 1 - t];
    } else out[1024 + t] = v[t] + 1;
  } else {
    int turns = 3 + (t >> 4);
    for (int i = 0; i < turns; i++) {
      s[t] = t;
      if (mode == 20) asm volatile("bar.sync 1;" ::: "memory");
      if (mode == 21) asm volatile("bar.sync 1, %0;" :: "r"(T) : "memory");
      if (mode == 22) asm volatile("barrier.sync 1;" ::: "memory");
      if (mode == 23) asm volatile("barrier.sync 1, %0;" :: "r"(T) : "memory");
    }
    if (n) out[t] = s[t];
  }
}
int main(int c, char** v) {
  int mode = atoi(v[1]), n = atoi(v[2]), th = atoi(v[3]); int* o; cudaMalloc(&o, 16384); cudaMemset(o, 0, 16384);
  k<<<4, th>>>(mode, n, o); cudaError_t e = cudaDeviceSynchronize(); int h[4096]; cudaMemcpy(h, o, 16384, cudaMemcpyDeviceToHost);
  int bad = 0; if (mode < 20) for (int i = 0; i < n; i++) bad += h[i] != n - 1 - i;
  printf("ended: %s bad %d\n", cudaGetErrorString(e), bad); return 0; }
