// ---- loads of data that nobody will read soon: once, or again, which the compiler must not leave out
template <class T> __device__ __forceinline__ T fetch_streaming(const T* from) { return __ldcs(from); }
template <class T> __device__ __forceinline__ T fetch_past(const T* from) { return *from; }
template <class T> __device__ __forceinline__ T fetch_again(const T* from) { return *static_cast<const volatile T*>(from); }
template <class T> __device__ __forceinline__ T fetch_last(const T* from) { return fetch_again(from); }
#define SYNCVERIFY_FETCH(How, Cache)                                                                                           \
  __device__ __forceinline__ uint4 fetch_##How(const uint4* from) {                                                            \
    uint4 v;                                                                                                                   \
    asm volatile("ld.global" Cache ".v4.u32 {%0, %1, %2, %3}, [%4];"                                                             \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(from)));                            \
    return v;                                                                                                                  \
  }                                                                                                                            \
  __device__ __forceinline__ uint2 fetch_##How(const uint2* from) {                                                            \
    uint2 v;                                                                                                                   \
    asm volatile("ld.global" Cache ".v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(__cvta_generic_to_global(from)));      \
    return v;                                                                                                                  \
  }
SYNCVERIFY_FETCH(again, "")
SYNCVERIFY_FETCH(last, ".L1::evict_first")
SYNCVERIFY_FETCH(past, ".L1::no_allocate")
#undef SYNCVERIFY_FETCH
// what is read again stays in the caches; what is not makes room there for what is written
__device__ __forceinline__ uint64 evict_last() {
  uint64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
template <class T> __device__ __forceinline__ T fetch_kept(const T* from) { return *from; }
template <class T> __device__ __forceinline__ T fetch_held(const T* from) { return fetch_again(from); }
template <class T> __device__ __forceinline__ T fetch_over(const T* from) { return fetch_again(from); }
#define SYNCVERIFY_FETCH(How, Cache, Policy)                                                                                   \
  __device__ __forceinline__ uint4 fetch_##How(const uint4* from) {                                                            \
    uint4 v;                                                                                                                   \
    asm volatile("ld.global" Cache ".L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"                                                   \
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(from)), "l"(Policy()));                      \
    return v;                                                                                                                  \
  }                                                                                                                            \
  __device__ __forceinline__ uint2 fetch_##How(const uint2* from) {                                                            \
    uint2 v;                                                                                                                   \
    asm volatile("ld.global" Cache ".L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"                                                           \
        : "=r"(v.x), "=r"(v.y) : "l"(__cvta_generic_to_global(from)), "l"(Policy()));                                            \
    return v;                                                                                                                  \
  }
SYNCVERIFY_FETCH(kept, "", evict_last)
SYNCVERIFY_FETCH(held, ".L1::evict_last", evict_last)
SYNCVERIFY_FETCH(over, ".L1::evict_first", evict_first)
#undef SYNCVERIFY_FETCH
#define SYNCVERIFY_LOADS(How)                                                                                                  \
  template <int Align = 0, int N, class X, class T> __device__ __forceinline__ void load_##How(X (&x)[N], const T* from) {        \
    pack<N, T, Align> v;                                                                                                       \
    _Pragma("unroll") for (int k = 0; k < pack<N, T, Align>::words; ++k)                                                       \
      v.word[k] = fetch_##How(reinterpret_cast<const typename pack<N, T, Align>::word_type*>(from) + k);                        \
    load<Align>(x, v.element);                                                                                                 \
  }                                                                                                                            \
  template <int Rows, int Pitch, int Align = 0, int N, class X, class T>                                                       \
  __device__ __forceinline__ void load_rows_##How(X (&x)[N], const T* from) {                                                  \
    _Pragma("unroll") for (int r = 0; r < Rows; ++r)                                                                           \
      load_##How<Align>(reinterpret_cast<X (&)[N / Rows]>(x[r * (N / Rows)]), from + r * Pitch);                                \
  }
SYNCVERIFY_LOADS(streaming)
SYNCVERIFY_LOADS(past)
SYNCVERIFY_LOADS(kept)
SYNCVERIFY_LOADS(again)
SYNCVERIFY_LOADS(last)
SYNCVERIFY_LOADS(held)
SYNCVERIFY_LOADS(over)
#undef SYNCVERIFY_LOADS
