// What an H100/H200 does with a warp that waits by parity on a barrier whose phases it does not hold up.
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -o lapped lapped_waiter.cu && for ns in 0 1000 100000; do timeout 20 ./lapped $ns; done
//
// A ring of three slots and four tiles, as TileLang's warp-specialized loops have it: the four warps of a producer
// warpgroup wait for each slot to be empty, warp 0 alone fills it, 128 consumers read it and arrive. Warp 1 sleeps for
// some nanoseconds before it looks at slot 1, whose empty barrier completes phase 0 only.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

constexpr int SLOTS = 3, TILES = 4;

__device__ void wait(uint32_t bar, int parity) {
    asm volatile("{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ void arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__global__ void __launch_bounds__(256, 1) ring(int *done, int ns) {
    __shared__ __align__(8) uint64_t bars[2 * SLOTS];
    uint32_t full = (uint32_t)__cvta_generic_to_shared(bars), empty = full + 8 * SLOTS;
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < SLOTS; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(empty + 8 * i));
        }
    __syncthreads();
    if (warp < 4) {
        for (int k = 0; k < TILES; ++k) {
            if (warp == 1 && k == 1)
                for (int slept = 0; slept < ns; slept += 1000) __nanosleep(1000);
            wait(empty + 8 * (k % SLOTS), (k / SLOTS) & 1 ^ 1);
            if (threadIdx.x == 0) arrive(full + 8 * (k % SLOTS));
        }
    } else {
        for (int k = 0; k < TILES; ++k) {
            wait(full + 8 * (k % SLOTS), (k / SLOTS) & 1);
            arrive(empty + 8 * (k % SLOTS));
        }
    }
    if (threadIdx.x % 32 == 0) atomicAdd(done, 1);
}

int main(int argc, char **argv) {
    int ns = argc > 1 ? atoi(argv[1]) : 0, blocks = 264, *done;
    cudaMallocManaged(&done, 4);
    *done = 0;
    ring<<<blocks, 256>>>(done, ns);
    cudaError_t e = cudaDeviceSynchronize();
    printf("%d ns: %s, %d of %d warps left\n", ns, cudaGetErrorString(e), *done, blocks * 8);
    return e != cudaSuccess;
}
