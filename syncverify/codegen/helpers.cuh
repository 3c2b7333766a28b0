// Thin names over the PTX that the kernel below uses; one instruction each, memory order as in PTX.

using uint32 = unsigned int;
using uint64 = unsigned long long;

struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };
struct e4m3 { unsigned char bits; };
struct e5m2 { unsigned char bits; };

__device__ __forceinline__ uint32 shared_address(const void* p) { return static_cast<uint32>(__cvta_generic_to_shared(p)); }

// ---- integers: floored division, as the kernel IR defines it
template <class T> __device__ __forceinline__ T floor_div(T a, T b) { T q = a / b; return q * b > a ? q - 1 : q; }
template <class T> __device__ __forceinline__ T floor_mod(T a, T b) { return a - floor_div(a, b) * b; }
template <class T> __device__ __forceinline__ T ceil_div(T a, T b) { return -floor_div(-a, b); }
template <class T> __device__ __forceinline__ T least(T a, T b) { return a < b ? a : b; }
template <class T> __device__ __forceinline__ T most(T a, T b) { return a > b ? a : b; }

// of numbers that cannot be negative
template <class T> __device__ __forceinline__ T divide(T a, T b) { return sizeof(T) == 8 ? T(uint64(a) / uint64(b)) : T(uint32(a) / uint32(b)); }
template <class T> __device__ __forceinline__ T remainder_of(T a, T b) { return sizeof(T) == 8 ? T(uint64(a) % uint64(b)) : T(uint32(a) % uint32(b)); }

// ---- warps and barriers
__device__ __forceinline__ bool elect_one() {
  uint32 yes;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
  return yes;
}
__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
template <int N> __device__ __forceinline__ void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

// ---- mbarriers
__device__ __forceinline__ void mbarrier_init(uint64* bar, uint32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void mbarrier_inval(uint64* bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64* bar, uint32 count = 1) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64* bar, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_expect_tx(uint64* bar, uint32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ bool mbarrier_try_wait(uint64* bar, uint32 parity) {
  uint32 yes;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(yes) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return yes;
}
__device__ __forceinline__ void mbarrier_wait(uint64* bar, uint32 parity) {
  while (!mbarrier_try_wait(bar, parity)) {}
}
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- fences
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void fence_proxy_async_shared_cta() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ __forceinline__ void fence_acq_rel_cta() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }

// ---- bulk copies
__device__ __forceinline__ void bulk_load(void* to, const void* from, uint32 bytes, uint64* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, const void* from, uint32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}
// the same for data that is used once: L2 gives it up first
__device__ __forceinline__ uint64 evict_first() {
  uint64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void bulk_load_streaming(void* to, const void* from, uint32 bytes, uint64* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(bar)), "l"(evict_first()) : "memory");
}
__device__ __forceinline__ void bulk_store_streaming(void* to, const void* from, uint32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;"
               ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes), "l"(evict_first()) : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
template <int N> __device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }

// ---- numbers: storage types widen to float and round to nearest even
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float(static_cast<uint32>(x.bits) << 16); }
__device__ __forceinline__ float widen(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ float widen(signed char x) { return static_cast<float>(x); }
__device__ __forceinline__ int widen(int x) { return x; }
__device__ __forceinline__ int widen(bool x) { return x; }
__device__ __forceinline__ void widen2(float& lo, float& hi, unsigned short pair, e4m3) {
  asm("{ .reg .b32 h; .reg .b16 a, b; cvt.rn.f16x2.e4m3x2 h, %2; mov.b32 {a, b}, h; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(lo), "=f"(hi) : "h"(pair));
}
__device__ __forceinline__ void widen2(float& lo, float& hi, unsigned short pair, e5m2) {
  asm("{ .reg .b32 h; .reg .b16 a, b; cvt.rn.f16x2.e5m2x2 h, %2; mov.b32 {a, b}, h; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(lo), "=f"(hi) : "h"(pair));
}
__device__ __forceinline__ float widen(e4m3 x) { float y, none; widen2(y, none, static_cast<unsigned short>(x.bits), x); return y; }
__device__ __forceinline__ float widen(e5m2 x) { float y, none; widen2(y, none, static_cast<unsigned short>(x.bits), x); return y; }
__device__ __forceinline__ long long widen(long long x) { return x; }
__device__ __forceinline__ void narrow(float& y, float x) { y = x; }
__device__ __forceinline__ void narrow(bf16& y, float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
__device__ __forceinline__ void narrow(f16& y, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
__device__ __forceinline__ void narrow2(unsigned short& pair, float lo, float hi, e4m3) { asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(hi), "f"(lo)); }
__device__ __forceinline__ void narrow2(unsigned short& pair, float lo, float hi, e5m2) { asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(hi), "f"(lo)); }
__device__ __forceinline__ void narrow(e4m3& y, float x) { unsigned short pair; narrow2(pair, x, 0.0f, y); y.bits = static_cast<unsigned char>(pair); }
__device__ __forceinline__ void narrow(e5m2& y, float x) { unsigned short pair; narrow2(pair, x, 0.0f, y); y.bits = static_cast<unsigned char>(pair); }
template <class X> __device__ __forceinline__ void narrow(int& y, X x) { y = static_cast<int>(x); }
template <class X> __device__ __forceinline__ void narrow(bool& y, X x) { y = x != X(0); }
// integers wrap around
__device__ __forceinline__ int add_int(int a, int b) { return static_cast<int>(static_cast<uint32>(a) + static_cast<uint32>(b)); }
__device__ __forceinline__ int subtract_int(int a, int b) { return static_cast<int>(static_cast<uint32>(a) - static_cast<uint32>(b)); }
__device__ __forceinline__ int multiply_int(int a, int b) { return static_cast<int>(static_cast<uint32>(a) * static_cast<uint32>(b)); }
template <class T> __device__ __forceinline__ float rounded(float x) { T y; narrow(y, x); return widen(y); }
__device__ __forceinline__ float min_nan(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
__device__ __forceinline__ float max_nan(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
// one number of N: four chains, so that additions do not wait for each other
template <int N, class F> __device__ __forceinline__ float reduce_add(F f) {
  float s[4] = {f(0), N > 1 ? f(1 % N) : 0.0f, N > 2 ? f(2 % N) : 0.0f, N > 3 ? f(3 % N) : 0.0f};
#pragma unroll
  for (int k = 4; k < N; ++k) s[k % 4] += f(k);
  const float first = N > 1 ? s[0] + s[1] : s[0];
  return N > 3 ? first + (s[2] + s[3]) : N > 2 ? first + s[2] : first;
}
template <int N, class F> __device__ __forceinline__ float reduce_max(F f) {
  float s[4] = {f(0), f(1 % N), f(2 % N), f(3 % N)};
#pragma unroll
  for (int k = 4; k < N; ++k) s[k % 4] = max_nan(s[k % 4], f(k));
  return max_nan(max_nan(s[0], s[1]), max_nan(s[2], s[3]));
}
template <int N, class F> __device__ __forceinline__ float reduce_min(F f) {
  return -reduce_max<N>([&](int k) { return -f(k); });
}
// ---- Philox 4x32-10: uniform numbers in [0, 1) for a thread's elements, by their places
__device__ __forceinline__ uint4 philox_words(uint64 seed, uint64 offset, uint64 block) {
  uint4 c = {static_cast<uint32>(block), static_cast<uint32>(block >> 32), static_cast<uint32>(offset), static_cast<uint32>(offset >> 32)};
  uint32 k0 = static_cast<uint32>(seed), k1 = static_cast<uint32>(seed >> 32);
#pragma unroll
  for (int r = 0; r < 10; ++r) {
    const uint64 a = uint64(0xD2511F53u) * c.x, b = uint64(0xCD9E8D57u) * c.z;
    c = {static_cast<uint32>(b >> 32) ^ c.y ^ k0, static_cast<uint32>(b), static_cast<uint32>(a >> 32) ^ c.w ^ k1, static_cast<uint32>(a)};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}
__device__ __forceinline__ float unit_interval(uint32 word) { return static_cast<float>(word >> 8) * 5.9604644775390625e-8f; }
// runs of Count elements, Pitch apart, from one that is a multiple of 4
template <int Count, int Pitch, int N> __device__ __forceinline__ void philox_aligned(float (&x)[N], uint64 seed, uint64 offset, uint64 first) {
#pragma unroll
  for (int k = 0; k < N; k += 4) {
    const uint4 w = philox_words(seed, offset, (first + k / Count * Pitch + k % Count) >> 2);
    x[k] = unit_interval(w.x), x[k + 1] = unit_interval(w.y), x[k + 2] = unit_interval(w.z), x[k + 3] = unit_interval(w.w);
  }
}
template <int Count, int Pitch, int N> __device__ __forceinline__ void philox(float (&x)[N], uint64 seed, uint64 offset, uint64 first) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const uint64 place = first + k / Count * Pitch + k % Count;
    const uint4 w = philox_words(seed, offset, place >> 2);
    const uint32 low = place & 1 ? w.y : w.x, high = place & 1 ? w.w : w.z;
    x[k] = unit_interval(place & 2 ? high : low);
  }
}
// a value that the compiler computes here and not later
__device__ __forceinline__ void keep(float& x) { asm volatile("" : "+f"(x)); }
// approximate forms, for results that are rounded to 16 bits
__device__ __forceinline__ float exp2_fast(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float reciprocal_fast(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float exp_fast(float x) { return exp2_fast(x * 1.4426950408889634f); }
__device__ __forceinline__ float sigmoid_fast(float x) { return reciprocal_fast(1.0f + exp2_fast(x * -1.4426950408889634f)); }
__device__ __forceinline__ float tanh_fast(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float erf_fast(float x) {  // Abramowitz and Stegun 7.1.26: absolute error below 2e-7
  float t = reciprocal_fast(fmaf(0.3275911f, fabsf(x), 1.0f));
  float s = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f);
  return copysignf(fmaf(-s * t, exp2_fast(x * -1.4426950408889634f * x), 1.0f), x);
}

// ---- N consecutive elements of one thread, in the widest aligned accesses of at most 16 bytes; the address is a
// multiple of Align elements, or of the largest power of two in N if Align is 0
template <int Bytes> struct word;
template <> struct word<16> { using type = uint4; };
template <> struct word<8> { using type = uint2; };
template <> struct word<4> { using type = uint32; };
template <> struct word<2> { using type = unsigned short; };
template <> struct word<1> { using type = unsigned char; };

template <int N, class T, int Align> struct pack {
  static constexpr int even = (N & -N) * sizeof(T), allowed = Align ? Align * sizeof(T) : 16;
  static constexpr int most = even < allowed ? even : allowed, bytes = most < 16 ? most : 16;
  static constexpr int words = N * sizeof(T) / bytes;
  using word_type = typename word<bytes>::type;
  union { word_type word[words]; T element[N]; uint32 pair[N * sizeof(T) < 4 ? 1 : N * sizeof(T) / 4]; unsigned short couple[N * sizeof(T) < 2 ? 1 : N * sizeof(T) / 2]; };
};
__device__ __forceinline__ void widen2(float& lo, float& hi, uint32 pair, bf16) {
  lo = __uint_as_float(pair << 16), hi = __uint_as_float(pair & 0xffff0000u);
}
__device__ __forceinline__ void widen2(float& lo, float& hi, uint32 pair, f16) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(lo), "=f"(hi) : "r"(pair));
}
__device__ __forceinline__ void narrow2(uint32& pair, float lo, float hi, bf16) {
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
}
__device__ __forceinline__ void narrow2(uint32& pair, float lo, float hi, f16) {
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
}
template <class T> constexpr bool is_float8 = false;
template <> constexpr bool is_float8<e4m3> = true;
template <> constexpr bool is_float8<e5m2> = true;
template <class T> constexpr bool is_float16 = false;
template <> constexpr bool is_float16<bf16> = true;
template <> constexpr bool is_float16<f16> = true;
template <int Align = 0, int N, class X, class T> __device__ __forceinline__ void load(X (&x)[N], const T* from) {
  pack<N, T, Align> v;
#pragma unroll
  for (int k = 0; k < pack<N, T, Align>::words; ++k) v.word[k] = reinterpret_cast<const typename pack<N, T, Align>::word_type*>(from)[k];
  if constexpr (is_float16<T> && N % 2 == 0) {
#pragma unroll
    for (int k = 0; k < N; k += 2) widen2(x[k], x[k + 1], v.pair[k / 2], T());
  } else if constexpr (is_float8<T> && N % 2 == 0) {
#pragma unroll
    for (int k = 0; k < N; k += 2) widen2(x[k], x[k + 1], v.couple[k / 2], T());
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = widen(v.element[k]);
  }
}
template <int Align, int N, class T, class X> __device__ __forceinline__ pack<N, T, Align> packed(const X (&x)[N]) {
  pack<N, T, Align> v;
  if constexpr (is_float16<T> && N % 2 == 0) {
#pragma unroll
    for (int k = 0; k < N; k += 2) narrow2(v.pair[k / 2], x[k], x[k + 1], T());
  } else if constexpr (is_float8<T> && N % 2 == 0) {
#pragma unroll
    for (int k = 0; k < N; k += 2) narrow2(v.couple[k / 2], x[k], x[k + 1], T());
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) narrow(v.element[k], x[k]);
  }
  return v;
}
template <int Align = 0, int N, class X, class T> __device__ __forceinline__ void store(T* to, const X (&x)[N]) {
  pack<N, T, Align> v = packed<Align, N, T>(x);
#pragma unroll
  for (int k = 0; k < pack<N, T, Align>::words; ++k) reinterpret_cast<typename pack<N, T, Align>::word_type*>(to)[k] = v.word[k];
}
// the same for data that nobody will read soon
template <int Align = 0, int N, class X, class T> __device__ __forceinline__ void store_streaming(T* to, const X (&x)[N]) {
  pack<N, T, Align> v = packed<Align, N, T>(x);
#pragma unroll
  for (int k = 0; k < pack<N, T, Align>::words; ++k) __stcs(reinterpret_cast<typename pack<N, T, Align>::word_type*>(to) + k, v.word[k]);
}

// ---- where a swizzle puts an element of a tile: 16-byte units of a row, exclusive-ored with the row's number
template <int Units, int Size> __device__ __forceinline__ int swizzled(int element) {
  return element ^ ((element * Size >> 7) & (Units - 1)) * (16 / Size);
}
// ---- 16 rows of a tile from element `first` on, by a warp: its part of a fragment, 16 columns at a time
template <int Columns, int Units, int N, class T> __device__ __forceinline__ void store_matrix(T* tile, int first, int lane, const float (&v)[N]) {
  static_assert(N * 2 == Columns && sizeof(T) == 2, "two elements of 8 columns in each half of the rows");
#pragma unroll
  for (int k = 0; k + 8 <= N; k += 8) {
    uint32 r[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) narrow2(r[m], v[k + 2 * m], v[k + 2 * m + 1], T());
    const int element = first + lane % 16 * Columns + k * 2 + lane / 16 * 8;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared_address(tile + swizzled<Units, sizeof(T)>(element))), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  }
  if (N % 8) {  // the last eight columns
    uint32 r[2];
#pragma unroll
    for (int m = 0; m < 2; ++m) narrow2(r[m], v[N - 4 + 2 * m], v[N - 3 + 2 * m], T());
    const int element = first + lane % 16 * Columns + Columns - 8;
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
                 ::"r"(shared_address(tile + swizzled<Units, sizeof(T)>(element))), "r"(r[0]), "r"(r[1]) : "memory");
  }
}

// ---- tensor copies and wgmma
struct alignas(64) tensor_map { uint64 words[16]; };
__device__ __forceinline__ void prefetch_map(const tensor_map& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const tensor_map& map, int x, int y, uint64* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(shared_address(bar)) : "memory");
}
// the same, to the same place of every block of the cluster that the mask names
__device__ __forceinline__ void tma_load(void* to, const tensor_map& map, int x, int y, uint64* bar, int mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(shared_address(bar)), "h"(static_cast<unsigned short>(mask)) : "memory");
}
__device__ __forceinline__ void tma_store(const tensor_map& map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               ::"l"(&map), "r"(x), "r"(y), "r"(shared_address(from)) : "memory");
}
__device__ __forceinline__ void tma_load_3d(void* to, const tensor_map& map, int x, int y, int z, uint64* bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void tma_load_3d(void* to, const tensor_map& map, int x, int y, int z, uint64* bar, int mask) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
               ::"r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(bar)), "h"(static_cast<unsigned short>(mask)) : "memory");
}
__device__ __forceinline__ void tma_store(const tensor_map& map, int x, int y, int z, const void* from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
               ::"l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(from)) : "memory");
}
// a matrix descriptor with 128-byte swizzle: start, leading and stride byte offsets in units of 16 bytes
__device__ __forceinline__ uint64 matrix_128B(const void* p, uint32 leading, uint32 stride) {
  return uint64((shared_address(p) & 0x3ffff) >> 4) | uint64(leading >> 4) << 16 | uint64(stride >> 4) << 32 | uint64(1) << 62;
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// accumulators have no value that the compiler could move across this point
template <int N> __device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> __device__ __forceinline__ void pin(uint32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
// Rows runs of N elements, Pitch elements apart
template <int Rows, int Pitch, int Align = 0, int N, class X, class T> __device__ __forceinline__ void load_rows(X (&x)[N], const T* from) {
#pragma unroll
  for (int r = 0; r < Rows; ++r) load<Align>(reinterpret_cast<X (&)[N / Rows]>(x[r * (N / Rows)]), from + r * Pitch);
}
template <int Rows, int Pitch, int Align = 0, int N, class X, class T> __device__ __forceinline__ void store_rows(T* to, const X (&x)[N]) {
#pragma unroll
  for (int r = 0; r < Rows; ++r) store<Align>(to + r * Pitch, reinterpret_cast<const X (&)[N / Rows]>(x[r * (N / Rows)]));
}
template <int Rows, int Pitch, int Align = 0, int N, class X, class T> __device__ __forceinline__ void store_rows_streaming(T* to, const X (&x)[N]) {
#pragma unroll
  for (int r = 0; r < Rows; ++r) store_streaming<Align>(to + r * Pitch, reinterpret_cast<const X (&)[N / Rows]>(x[r * (N / Rows)]));
}
