// Prints the launch of a CUTLASS 3 kernel, for several problems, without a GPU or a driver: the bytes of its
// parameters, and what each tensor map was asked to hold. A map's bytes are its number, so that it is found again.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <cuda.h>

#include "cutlass/cutlass.h"
#include "cute/tensor.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/default_epilogue.hpp"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "cutlass/util/packed_stride.hpp"

namespace probe {

struct Map {
  int dtype, rank, swizzle;
  std::vector<unsigned> box;
};

inline std::vector<Map>& maps() {
  static std::vector<Map> made;
  return made;
}

inline CUresult record(CUtensorMap* out, int dtype, int rank, const unsigned* box, int swizzle) {
  uint32_t mark[32];
  for (uint32_t& word : mark) word = 0x7A3B0000u + static_cast<uint32_t>(maps().size());
  std::memcpy(out, mark, sizeof mark);
  maps().push_back({dtype, rank, swizzle, std::vector<unsigned>(box, box + rank)});
  return CUDA_SUCCESS;
}

// Addresses that no machine has: the reader of the parameters knows them again.
inline void* pointer(int index) { return reinterpret_cast<void*>(0x2b7e15000000ull + (uint64_t(index) << 28)); }

inline void hex(const void* data, size_t size) {
  for (size_t i = 0; i < size; ++i) std::printf("%02x", static_cast<const unsigned char*>(data)[i]);
}

template <class Kernel>
void print(typename Kernel::Arguments const& args, int k) {
  using Params = typename Kernel::Params;
  maps().clear();
  void* at = std::aligned_alloc(128, (sizeof(Params) + 127) / 128 * 128);
  std::memset(at, 0, sizeof(Params));
  Params* params = new (at) Params(Kernel::to_underlying_arguments(args, pointer(15)));
  dim3 grid = Kernel::get_grid_shape(*params), block = Kernel::get_block_shape();
  using Cluster = typename Kernel::DispatchPolicy::ClusterShape;
  std::printf("{\"k\": %d, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], ", k, grid.x, grid.y, grid.z, block.x, block.y,
              block.z);
  std::printf("\"cluster\": [%d, %d, %d], \"shared\": %d, \"maps\": [", int(cute::size<0>(Cluster{})),
              int(cute::size<1>(Cluster{})), int(cute::size<2>(Cluster{})), int(Kernel::SharedStorageSize));
  for (size_t i = 0; i < maps().size(); ++i) {
    Map const& map = maps()[i];
    std::printf("%s{\"dtype\": %d, \"swizzle\": %d, \"box\": [", i ? ", " : "", map.dtype, map.swizzle);
    for (size_t d = 0; d < map.box.size(); ++d) std::printf("%s%u", d ? ", " : "", map.box[d]);
    std::printf("]}");
  }
  std::printf("], \"params\": \"");
  hex(params, sizeof(Params));
  std::printf("\"}\n");
}

}  // namespace probe

extern "C" CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* out, CUtensorMapDataType dtype, cuuint32_t rank, void*, const cuuint64_t*, const cuuint64_t*,
    const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill) {
  return probe::record(out, int(dtype), int(rank), box, int(swizzle));
}

extern "C" CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap* out, CUtensorMapDataType dtype, cuuint32_t rank, void*, const cuuint64_t*, const cuuint64_t*, const int*,
    const int*, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  unsigned box[2] = {channels, pixels};
  (void)rank;
  return probe::record(out, int(dtype), 2, box, int(swizzle));
}
