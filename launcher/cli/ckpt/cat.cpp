// trainrun ckpt cat: values of a tensor, or of a part of it.
#include <algorithm>
#include <cstring>
#include <ostream>
#include <string_view>
#include <tuple>
#include <vector>

#include "checkpoint/io/read_chunks.h"
#include "checkpoint/tools/compare.h"
#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/shared_file.h"
#include "core/reading/whole_number.h"
#include "launcher/cli/ckpt/commands.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/config/run_names.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace {
// A whole number of a part of an index.
int64_t number_of(const std::string& word, const std::string& index) {
  if (const auto out = whole_number(word)) return *out;
  throw UserError(str("--index \"", index, "\": \"", shortened(printable(word), 40),
                      "\" is no whole number; write it as in \"0:3, :, -1\""));
}

// One dim of an index: "2:5", ":", "-1". Bounds beyond the size are cut, as numpy cuts them.
std::pair<int64_t, int64_t> range_of(const std::string& part, size_t dim, int64_t size,
                                     const std::string& index) {
  const size_t colon = part.find(':');
  auto bound = [&](const std::string& word, int64_t open) {
    if (word.empty()) return open;
    const int64_t value = number_of(word, index);
    return std::clamp<int64_t>(value < 0 ? value + size : value, 0, size);
  };
  if (colon != std::string::npos) {
    const int64_t from = bound(trim(part.substr(0, colon)), 0),
                  to = bound(trim(part.substr(colon + 1)), size);
    return {from, std::max<int64_t>(0, to - from)};
  }
  const int64_t at = number_of(part, index), from = at < 0 ? at + size : at;
  if (from < 0 || from >= size)
    throw UserError(str("--index \"", index, "\": ", at, " is outside of dim ", dim, ", which has ", size));
  return {from, 1};
}

// What an index names, and its shape: without the dims that have one index, as numpy has it.
struct Indexed {
  Box box;
  Shape shape;
};
Indexed indexed(const std::string& index, const TensorRecord& tensor) {
  Indexed out{whole(tensor.shape), {}};
  if (trim(index).empty()) return {out.box, tensor.shape};
  const auto parts = split(index, ',');
  if (parts.size() > tensor.shape.size())
    throw UserError(str("--index \"", index, "\" has ", parts.size(), " parts, and ", tensor.fqn, " is ",
                        shape_text(tensor.dtype, tensor.shape), ", of ", tensor.shape.size(), " dims"));
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::string part = d < parts.size() ? trim(parts[d]) : ":";
    std::tie(out.box.offset[d], out.box.size[d]) = range_of(part, d, tensor.shape[d], index);
    if (part.find(':') != std::string::npos) out.shape.push_back(out.box.size[d]);
  }
  return out;
}

const TensorRecord& record_of(const HeldStep& step, const std::string& fqn) {
  if (const TensorRecord* found = step.manifest.find(fqn)) return *found;
  std::vector<std::string> names;
  for (const auto& tensor : step.manifest.tensors) names.push_back(tensor.fqn);
  const std::string near = nearest(fqn, names);
  throw UserError(str(step.path, " has no tensor \"", shortened(printable(fqn), 200), "\"",
                      near.empty() ? str("; trainrun ckpt show ", step.path, " lists its ", names.size())
                                   : str("; did you mean ", near, "?")));
}

// The elements of a part, under the checksums of the chunks that hold them.
Array part_of(const HeldStep& step, const TensorRecord& tensor, const Indexed& part) {
  Array out;
  out.fqn = tensor.fqn, out.dtype = tensor.dtype, out.shape = tensor.shape;
  out.local_shape = part.box.size;
  if (numel(part.box) > 0) {
    out.pieces = {Piece{part.box, whole(part.box.size)}};
    out.data = Buffer(out.local_bytes());
    read_arrays(*step.files, step.path, step.manifest, {&out});
  }
  out.local_shape = part.shape;
  return out;
}

void print(const Array& array, std::ostream& out) {
  const Shape& shape = array.local_shape;
  const int64_t row = shape.empty() ? 1 : shape.back(), n = array.local_numel();
  const int64_t matrix = shape.size() < 2 ? n : row * shape[shape.size() - 2];
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0 && shape.size() > 2 && i % matrix == 0) out << "\n";
    out << value_text(array.dtype, array.data.data(), i)
        << ((shape.size() < 2 || (i + 1) % row == 0) ? "\n" : " ");
  }
}

const char* npy_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::f16:
      return "<f2";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    case DType::u16:
      return "<u2";
    case DType::u32:
      return "<u4";
    case DType::u64:
      return "<u8";
    case DType::boolean:
      return "|b1";
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      break;  // of no checkpoint
  }
  throw InternalError("a dtype without a type of numpy's");
}

// bf16, which numpy lacks, as floats. errno, or 0.
int write_elements(const Array& array, int file) {
  if (array.dtype != DType::bf16) return write_fully(file, array.data.data(), array.local_bytes());
  const int64_t n = array.local_numel();
  constexpr int64_t kBlock = 1 << 16;
  std::vector<float> wide;
  for (int64_t i = 0; i < n; i += kBlock) {
    wide.clear();
    for (int64_t k = i; k < std::min(i + kBlock, n); ++k)
      wide.push_back(static_cast<float>(get_double(array.dtype, array.data.data(), k)));
    if (const int code = write_fully(file, wide.data(), wide.size() * sizeof(float))) return code;
  }
  return 0;
}

// Version 1 of the format (NEP 1): magic, length, a dictionary that ends the header at a multiple of 64.
void write_npy(const Array& array, const std::string& path) {
  if (!path.ends_with(".npy")) throw UserError(str("--npy ", path, ": name a file that ends in .npy"));
  std::string shape;
  for (int64_t size : array.local_shape) shape += str(size, ",");
  std::string head =
      str("{'descr': '", npy_type(array.dtype), "', 'fortran_order': False, 'shape': (", shape, "), }");
  head += std::string(63 - (10 + head.size()) % 64, ' ') + "\n";
  const std::string why = write_shared(path, [&](const Descriptor& file) {
    const char length[2] = {static_cast<char>(head.size() % 256), static_cast<char>(head.size() / 256)};
    const int code =
        write_fully(file.get(), std::string("\x93NUMPY\x01\x00", 8) + std::string(length, 2) + head);
    return code ? code : write_elements(array, file.get());
  });
  if (!why.empty()) throw UserError(str("cannot write ", path, ": ", why));
}
}  // namespace

int ckpt_cat(const CkptCatArguments& arguments, std::ostream& out) {
  refuse_no_local_path(arguments.npy, "--npy");
  const HeldStep step = hold_step(arguments.path);
  const TensorRecord& tensor = record_of(step, arguments.tensor);
  const Array part = part_of(step, tensor, indexed(arguments.index, tensor));
  if (arguments.npy.empty()) {
    print(part, out);
    return kExitOk;
  }
  write_npy(part, arguments.npy);
  out << "wrote " << arguments.npy << ": " << shape_text(part.dtype, part.local_shape) << " of " << tensor.fqn
      << ", step " << step.manifest.step << (part.dtype == DType::bf16 ? ", as float32, which numpy has" : "")
      << "\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
