// NpyFile: an array in NumPy's .npy format (NEP 1), versions 1 to 3: header and rows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/types/shape.h"
#include "launcher/data/npz.h"
#include "launcher/data/source.h"

namespace lockstep::launcher::data {

class NpyFile {
 public:
  // UserError naming the file: not such an array, Fortran order, foreign byte order, a type that is not a
  // plain number, or fewer bytes than the header says.
  explicit NpyFile(const std::string& path);
  // A member of a .npz archive; `sums`: checksums of the uncompressed members, which a scan verifies.
  NpyFile(const std::string& path, const NpzMember& member, std::vector<SummedBytes> sums);

  const Shape& shape() const { return shape_; }
  const std::string& type() const { return type_; }  // "f4", "u1"
  const Source& source() const { return source_; }
  int64_t row_elements() const { return row_; }  // elements per index of the first dim
  // Reads rows from i on, as many as `out` holds: floats (u1 as value / 255) or integers. UserError for an
  // integer beyond i32.
  void read(int64_t i, std::span<float> out) const;
  void read(int64_t i, std::span<int32_t> out) const;

 private:
  std::vector<std::byte> raw(int64_t i, size_t elements) const;
  void read_header(int64_t base, int64_t size);

  Source source_;
  Shape shape_;
  std::string type_;
  int64_t begin_ = 0, row_ = 1, width_ = 0;
};

}  // namespace lockstep::launcher::data
