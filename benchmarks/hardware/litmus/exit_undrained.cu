// Does a block that exits while a bulk store still reads its shared memory (K21) lose what it stores?
//
//   nvcc -arch=sm_90a -O3 -o exit_undrained exit_undrained.cu && ./exit_undrained [launches]
//
// Each block fills its shared memory with another pattern first, as its successor on the SM will, then with its own
// words, stores them by bulk copies and exits: at once, after commit, or after commit and wait_group.read. The
// words that are wrong in memory are counted. One block or many fit on an SM, by the bytes of each.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

constexpr int THREADS = 128;

__host__ __device__ inline uint32_t word(uint32_t block, uint32_t i, uint32_t launch) {
  return (block * 2654435761u) ^ (i * 40503u) ^ (launch << 24);
}

template <int END>
__global__ void store(uint32_t* out, int words, int copies, uint32_t launch) {
  extern __shared__ __align__(128) uint32_t smem[];
  for (int i = threadIdx.x; i < words; i += THREADS) smem[i] = 0xdeadbeefu;
  __syncthreads();
  for (int i = threadIdx.x; i < words; i += THREADS) smem[i] = word(blockIdx.x, i, launch);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    const int each = words / copies;
    for (int c = 0; c < copies; ++c) {
      const uint32_t from = uint32_t(__cvta_generic_to_shared(smem + c * each));
      uint32_t* to = out + size_t(blockIdx.x) * words + c * each;
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(each * 4)
                   : "memory");
    }
    if (END > 0) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (END > 1) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

__global__ void count(const uint32_t* out, int words, uint32_t launch, unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (int i = threadIdx.x; i < words; i += blockDim.x)
    mine += out[size_t(blockIdx.x) * words + i] != word(blockIdx.x, i, launch);
  if (mine) atomicAdd(wrong, mine);
}

template <int END>
void run(const char* name, int bytes, int copies, int launches) {
  const int words = bytes / 4;
  const size_t total = size_t(1) << 29;  // 512 MiB of each launch, more than L2 holds
  const int blocks = int(total / bytes);
  uint32_t* out;
  unsigned long long *wrong, found = 0;
  cudaMalloc(&out, total);
  cudaMalloc(&wrong, 8);
  cudaMemset(wrong, 0, 8);
  cudaFuncSetAttribute(store<END>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  for (int l = 0; l < launches; ++l) {
    store<END><<<blocks, THREADS, bytes>>>(out, words, copies, l);
    count<<<blocks, 256>>>(out, words, l, wrong);
  }
  cudaMemcpy(&found, wrong, 8, cudaMemcpyDeviceToHost);
  const cudaError_t e = cudaDeviceSynchronize();
  printf("%-10s %6d bytes %3d copies: %llu wrong of %.2e words%s%s\n", name, bytes, copies, found,
         double(total / 4) * launches, e ? " " : "", e ? cudaGetErrorString(e) : "");
  cudaFree(out);
  cudaFree(wrong);
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? atoi(argv[1]) : 20;
  for (int bytes : {1024, 4096, 16384, 65536, 196608})
    for (int copies : {1, 8}) {
      run<0>("at once", bytes, copies, launches);
      run<1>("committed", bytes, copies, launches);
      run<2>("read", bytes, copies, launches);
    }
}
