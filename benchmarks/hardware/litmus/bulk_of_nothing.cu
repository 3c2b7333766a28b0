// Bulk copies of no bytes beside copies of 16: do they fault, do phases wait for them, do they write?
//   nvcc -gencode arch=compute_90a,code=sm_90a -O2 bulk_of_nothing.cu -o bulk_of_nothing
#include <cstdio>
#include <cstdint>
__device__ uint32_t s32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ int wait(uint64_t* b, int par, int tries) { for (int i = 0; i < tries; i++) { int ok; asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0,1,0,p;}" : "=r"(ok) : "r"(s32(b)), "r"(par) : "memory"); if (ok) return 1; __nanosleep(100); } return 0; }
__global__ void load(const char* g, int n, int* out, int rounds) {
  __shared__ alignas(128) char t[256]; __shared__ alignas(8) uint64_t b;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 256; i++) t[i] = 77;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(s32(&b)) : "memory"); asm volatile("fence.proxy.async.shared::cta;");
    int good = 0;
    for (int r = 0; r < rounds; r++) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(s32(&b)), "r"(n + 16) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(s32(t)), "l"(g), "r"(n), "r"(s32(&b)) : "memory");
      int early = wait(&b, r & 1, 20);  // 16 bytes are missing: not yet
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(s32(t + 128)), "l"(g), "r"(16), "r"(s32(&b)) : "memory");
      int late = wait(&b, r & 1, 100000);
      good += !early && late;
    }
    out[0] = good; out[1] = t[0]; out[2] = t[128]; out[3] = t[16];
  }
}
__global__ void loadlast(const char* g, int n, int* out) {  // the copy of n bytes comes last, all else is there
  __shared__ alignas(128) char t[256]; __shared__ alignas(8) uint64_t b;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(s32(&b)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(s32(t)), "l"(g), "r"(n), "r"(s32(&b)) : "memory");
    int early = wait(&b, 0, 1000);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(s32(&b)), "r"(n) : "memory");
    out[0] = early; out[1] = wait(&b, 0, 100000); out[2] = wait(&b, 1, 100);
  }
}
__global__ void store(char* g, int n, int* out) {
  __shared__ alignas(128) char t[256];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 256; i++) t[i] = 55;
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(g), "r"(s32(t)), "r"(n) : "memory");
    asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); out[0] = 1;
  }
}
int main() {
  char* g; int* o; cudaMalloc(&g, 4096); cudaMalloc(&o, 64); int h[4]; char c[32];
  for (int n : {16, 0}) {
    cudaMemset(g, 33, 4096); cudaMemset(o, 0, 64); load<<<264, 32>>>(g, n, o, 200); printf("load %d: %s ", n, cudaGetErrorString(cudaDeviceSynchronize())); cudaMemcpy(h, o, 16, cudaMemcpyDeviceToHost); printf("good %d of 200, bytes %d %d %d\n", h[0], h[1], h[2], h[3]);
    cudaMemset(o, 0, 64); loadlast<<<1, 32>>>(g, n, o); printf("loadlast %d: %s ", n, cudaGetErrorString(cudaDeviceSynchronize())); cudaMemcpy(h, o, 16, cudaMemcpyDeviceToHost); printf("early %d, then %d, next phase %d\n", h[0], h[1], h[2]);
    cudaMemset(o, 0, 64); store<<<264, 32>>>(g + 64, n, o); printf("store %d: %s ", n, cudaGetErrorString(cudaDeviceSynchronize())); cudaMemcpy(h, o, 16, cudaMemcpyDeviceToHost); cudaMemcpy(c, g + 64, 32, cudaMemcpyDeviceToHost); printf("done %d, bytes %d %d\n", h[0], c[0], c[16]);
  }
}
