// Layout of the table that a multi-tensor kernel takes as its parameter, shared by the kernel's source and
// its launches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::compiler::cuda {

struct TableLayout {
  int columns = 0;     // pointers per tensor: per-element inputs, then outputs
  int per_tensor = 0;  // f32 scalars per tensor
  int shared = 0;      // pointers to scalars that all tensors share
  int capacity = 0;    // tensors of one launch

  // Offsets in bytes, in the order of the struct in the kernel's text.
  size_t pointers() const { return 8 * static_cast<size_t>(shared); }
  size_t sizes() const { return pointers() + 8 * static_cast<size_t>(columns * capacity); }
  size_t scalars() const { return sizes() + 8 * static_cast<size_t>(capacity); }
  size_t first() const { return scalars() + 4 * static_cast<size_t>(per_tensor * capacity); }
  size_t count() const { return first() + 4 * static_cast<size_t>(capacity + 1); }
  size_t bytes() const { return (count() + 4 + 7) / 8 * 8; }
};
inline constexpr size_t kTableBytes = 4080;  // of the 4096 bytes that every driver passes by value
inline constexpr int kTensorChunk = 8192;    // elements per block
inline constexpr int kTensorThreads = 256;

}  // namespace lockstep::compiler::cuda
