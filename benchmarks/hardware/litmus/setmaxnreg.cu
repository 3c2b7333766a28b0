// What an H100/H200 does with setmaxnreg that the warps of a warpgroup execute at different places.
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O3 -o setmaxnreg setmaxnreg.cu && for v in 0 1 2 3 4; do timeout 20 ./setmaxnreg $v; done
//
// Warpgroup 0 gives registers back, warpgroup 1 takes them all: it can go on only if the four warps' requests
// counted as one. 0: one instruction. 1: the same number at four instructions. 2: only warp 0 asks. 3: four
// instructions, asked for twice. 4: two warps ask at one instruction, two at another that is a loop later.
#include <cstdio>
#include <cstdlib>

#define DEC(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define INC(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))
#define APART(i) asm volatile("// place " #i ::: "memory")

template <int V>
__global__ void __maxnreg__(128) pool(int *out, int rounds) {
    int warp = threadIdx.x / 32;
    if (warp < 4) {
        if (V == 0) {
            DEC(40);
        } else if (V == 2) {
            if (warp == 0) DEC(40);
        } else if (V == 4) {
            if (warp < 2) {
                DEC(40);
                APART(0);
            } else {
                for (int i = 0; i < rounds; ++i) __nanosleep(100);
                DEC(40);
                APART(1);
            }
        } else {
            switch (warp) {
                case 0: APART(0); DEC(40); if (V == 3) DEC(40); out[0] = 1; break;
                case 1: APART(1); __nanosleep(100); DEC(40); if (V == 3) DEC(40); out[1] = 2; break;
                case 2: APART(2); __nanosleep(200); DEC(40); if (V == 3) DEC(40); out[2] = 3; break;
                default: APART(3); __nanosleep(300); DEC(40); if (V == 3) DEC(40); out[3] = 4; break;
            }
        }
    } else {
        INC(216);
        atomicAdd(out + 4, 1);
    }
}

template <int V>
int run() {
    int *out, sum = 0;
    cudaMalloc(&out, 32);
    cudaMemset(out, 0, 32);
    for (int i = 0; i < 1000; ++i) pool<V><<<264, 256>>>(out, i % 50);
    cudaError_t e = cudaDeviceSynchronize();
    cudaMemcpy(&sum, out + 4, 4, cudaMemcpyDeviceToHost);
    printf("variant %d: %s, %d of %d threads took their registers\n", V, cudaGetErrorString(e), sum, 1000 * 264 * 128);
    return e != cudaSuccess;
}

int main(int argc, char **argv) {
    switch (argc > 1 ? atoi(argv[1]) : 0) {
        case 0: return run<0>();
        case 1: return run<1>();
        case 2: return run<2>();
        case 3: return run<3>();
        default: return run<4>();
    }
}
