// ---- a quotient off by two units in the last place at most, for results that are rounded to 16 bits
__device__ __forceinline__ float divide_fast(float x, float y) { float z; asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y)); return z; }
