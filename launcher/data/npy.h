// An array of numpy's format .npy, versions 1 to 3: header and rows. NEP 1.
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
  // UserError naming the file: no such array, Fortran's order, bytes in another order than this machine's, a
  // type that is no plain number, or fewer bytes than the header says.
  explicit NpyFile(const std::string& path);
  // A member of a .npz archive; `sums`: of its members that are not packed, which a scan compares.
  NpyFile(const std::string& path, const NpzMember& member, std::vector<SummedBytes> sums);

  const Shape& shape() const { return shape_; }
  const std::string& type() const { return type_; }  // "f4", "u1"
  const Source& source() const { return source_; }
  int64_t row_elements() const { return row_; }  // of an index of the first dim
  // Rows from i on, as many as `out` takes: floats (u1 as value / 255) or integers. UserError for an integer
  // beyond i32.
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
