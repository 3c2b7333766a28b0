// ---- a quotient off by two units in the last place at most: the exact one takes branches, and four times the instructions
__device__ __forceinline__ float divide_fast(float x, float y) { float z; asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y)); return z; }
__device__ __forceinline__ float sigmoid(float x) { return divide_fast(1.0f, 1.0f + expf(-x)); }
