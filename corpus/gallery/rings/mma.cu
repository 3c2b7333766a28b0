#include "barrier.cuh"
// 64x64x64 products of bf16: one producer warp of a warpgroup, one consumer warpgroup with wgmma.
constexpr int kPipe = 3, kBytes = 64 * 64 * 2;
struct Smem {
  alignas(1024) unsigned char a[kPipe][kBytes];
  alignas(1024) unsigned char b[kPipe][kBytes];
  Barrier full[kPipe];
  Barrier empty[kPipe];
};
__device__ __forceinline__ u64 desc(const void* p) {
  u64 d = 0;
  d |= (u64)((saddr(p) & 0x3FFFF) >> 4);
  d |= (u64)1 << 16;
  d |= (u64)64 << 32;
  d |= (u64)1 << 62;
  return d;
}
__device__ __forceinline__ void mma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void mma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void mma_step(float (&d)[4], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(256) mma(const unsigned char* ga, const unsigned char* gb, float* gc, int steps) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  const int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kPipe; ++i) {
      s.full[i].init(1);
      s.empty[i].init(128);
    }
  }
  __syncthreads();
  if (group == 1) {
    reg_dec<24>();
    if (threadIdx.x == 128) {
      int i = 0;
      u32 phase = 1;
      for (int k = 0; k < steps; ++k) {
        s.empty[i].wait(phase);
        s.full[i].expect(2 * kBytes);
        load_row(s.a[i], ga + (size_t)k * kBytes, kBytes, s.full[i]);
        load_row(s.b[i], gb + (size_t)k * kBytes, kBytes, s.full[i]);
        if (++i == kPipe) { i = 0; phase ^= 1; }
      }
    }
  } else {
    reg_inc<240>();
    float d[4] = {0.f, 0.f, 0.f, 0.f};
    int i = 0;
    u32 phase = 0;
    for (int k = 0; k < steps; ++k) {
      s.full[i].wait(phase);
      mma_begin();
      for (int j = 0; j < 4; ++j) mma_step(d, desc(s.a[i]) + 2 * j, desc(s.b[i]) + 2 * j);
      mma_commit();
      mma_wait<0>();
      s.empty[i].arrive();
      if (++i == kPipe) { i = 0; phase ^= 1; }
    }
    for (int j = 0; j < 4; ++j) gc[threadIdx.x * 4 + j] = d[j];
  }
}
