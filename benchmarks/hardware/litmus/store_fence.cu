// A bulk-store epilogue with its proxy fence in every place and form that generators use: what each costs on a GPU.
//
//     benchmarks/hardware/store_fence.py checks every form and, on a Hopper GPU, times them in alternation.
//
// SCOPE 0: fence.proxy.async, 1: fence.proxy.async.shared::cta.
// PLACE 0: after every 16-byte store of the unrolled loop, 1: once, behind the loop, by every thread that stored;
//       2: by warp 0 alone, before the block barrier; 3: by warp 0 alone, behind it; 4: by the issuer alone, behind it.
// ISSUER 0: thread 0, by its index; 1: warp 0 by threadIdx.x / 32, its elected lane; 2: the same, the warp's number
//        broadcast by shuffle so that the compiler knows it to be uniform.
// Each block fills one of two 16 KB tiles per turn and stores it; what is stored depends on the turn.
#ifndef SCOPE
#define SCOPE 1
#define PLACE 1
#define ISSUER 2
#endif

constexpr int THREADS = 256, WORDS = 4096, STEPS = WORDS / 4 / THREADS;

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void fence() {
    if (SCOPE == 0) asm volatile("fence.proxy.async;" ::: "memory");
    else asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ bool elected() {
    unsigned one;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
    return one != 0;
}

__device__ __forceinline__ bool issuer() {
    if (ISSUER == 0) return threadIdx.x == 0;
    if (ISSUER == 1) return threadIdx.x / 32 == 0 && elected();
    return __shfl_sync(0xffffffff, threadIdx.x / 32, 0) == 0 && elected();
}

extern "C" __global__ void __launch_bounds__(THREADS) store_fence(float *out, int turns, int wrap) {
    __shared__ __align__(128) float tile[2][WORDS];
    for (int turn = 0; turn < turns; ++turn) {
        float *mine = tile[turn % 2];
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            int at = (step * THREADS + threadIdx.x) * 4;
            float x = turn + at;
            asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(shared_address(mine + at)), "f"(x) : "memory");
            if (PLACE == 0) fence();
        }
        if (PLACE == 1) fence();
        if (PLACE == 2 && threadIdx.x < 32) fence();
        __syncthreads();
        if (PLACE == 3 && threadIdx.x < 32) fence();
        if (issuer()) {
            if (PLACE == 4) fence();
            long long place = ((long long)blockIdx.x * wrap + turn % wrap) * WORDS;
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + place),
                         "r"(shared_address(mine)), "r"(WORDS * 4)
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        }
        __syncthreads();
    }
    if (issuer()) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
