// ---- loads of data that nobody will read soon
template <int Align = 0, int N, class X, class T> __device__ __forceinline__ void load_streaming(X (&x)[N], const T* from) {
  pack<N, T, Align> v;
#pragma unroll
  for (int k = 0; k < pack<N, T, Align>::words; ++k) v.word[k] = __ldcs(reinterpret_cast<const typename pack<N, T, Align>::word_type*>(from) + k);
  load<Align>(x, v.element);
}
template <int Rows, int Pitch, int Align = 0, int N, class X, class T> __device__ __forceinline__ void load_rows_streaming(X (&x)[N], const T* from) {
#pragma unroll
  for (int r = 0; r < Rows; ++r) load_streaming<Align>(reinterpret_cast<X (&)[N / Rows]>(x[r * (N / Rows)]), from + r * Pitch);
}
