// safetensors headers: writes and parses them, and checks every range.
#include "checkpoint/format/safetensors.h"

#include <algorithm>
#include <set>

#include "checkpoint/format/damage.h"
#include "checkpoint/format/strict_json.h"
#include "core/reading/lfs_pointer.h"
#include "core/reading/one_line.h"

namespace lockstep::checkpoint {

namespace {
constexpr int64_t kAlign = 64;
constexpr int64_t kMaxHeader = 100'000'000;  // the format's own bound

// Bytes of an element; 0 when an element has a fraction of a byte or the dtype is unknown.
int64_t size_of_element(const SafeTensor& tensor) {
  if (tensor.other.empty()) return static_cast<int64_t>(size_of(tensor.dtype));
  if (tensor.other == "I16") return 2;
  if (tensor.other == "C64") return 8;
  return tensor.other == "I8" || tensor.other.starts_with("F8_") ? 1 : 0;
}
}  // namespace

std::string type_text(const SafeTensor& tensor) {
  return tensor.other.empty() ? shape_text(tensor.dtype, tensor.shape)
                              : shortened(printable(tensor.other), 40) + str(tensor.shape);
}

std::string make_safetensors_header(std::vector<SafeTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> names;
  int64_t at = 0;
  for (auto& tensor : tensors) {
    if (tensor.name == "__metadata__")
      throw UserError("a tensor cannot be named \"__metadata__\": safetensors keeps that name for itself");
    if (!names.insert(tensor.name).second)
      throw UserError(str("two tensors are named \"", tensor.name, "\" in one safetensors file"));
    if (tensor.other.empty()) tensor.bytes = bytes_of(tensor.dtype, tensor.shape);
    tensor.offset = at;
    header[tensor.name] = {
        {"dtype", tensor.other.empty() ? std::string(safetensors_name(tensor.dtype)) : tensor.other},
        {"shape", tensor.shape},
        {"data_offsets", {at, at + tensor.bytes}}};
    at += tensor.bytes;
  }
  std::string json = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  json.resize((json.size() + 8 + kAlign - 1) / kAlign * kAlign - 8, ' ');
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i)
    out[i] = static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i) & 0xff);
  out += json;
  for (auto& tensor : tensors) tensor.offset += static_cast<int64_t>(out.size());
  return out;
}

int64_t safetensors_header_length(std::string_view first_8, int64_t file_bytes, const std::string& path) {
  if (first_8.size() < 8 || file_bytes < 8)
    throw DamagedError(str(path, " is not a safetensors file: it has ", file_bytes,
                           " bytes, and 8 hold the header's length"));
  if (is_lfs_pointer(first_8.substr(0, 8))) throw DamagedError(str(path, " ", kLfsPointer));
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(first_8[i])) << (8 * i);
  if (length > static_cast<uint64_t>(file_bytes - 8))
    throw DamagedError(str(path, ": the header's length is ", length, " bytes, but only ", file_bytes - 8,
                           " follow; truncated, or not safetensors"));
  if (length > static_cast<uint64_t>(kMaxHeader))
    throw DamagedError(
        str(path, ": the header's length is ", length, " bytes; the format allows ", kMaxHeader));
  return static_cast<int64_t>(length);
}

namespace {
std::map<std::string, std::string> metadata_of(const Json& value, const std::string& where) {
  if (!value.is_object())
    throw DamagedError(str(where, " is a ", value.type_name(), "; an object of strings belongs there"));
  std::map<std::string, std::string> out;
  for (const auto& [name, item] : value.items()) {
    if (!item.is_string())
      throw DamagedError(
          str(where, ": \"", one_line(name), "\" is a ", item.type_name(), "; a string belongs there"));
    out[name] = item.get<std::string>();
  }
  return out;
}

// `data_start`: of the file's `file_bytes`, where the data begins.
SafeTensor tensor_of(const std::string& name, const Json& value, int64_t data_start, int64_t file_bytes,
                     const std::string& where) {
  SafeTensor tensor;
  tensor.name = name;
  std::string dtype = strict::text(value, "dtype", where);
  if (dtype.empty())
    throw DamagedError(str(where, ": \"dtype\" is \"\"; a type belongs there, as in \"F32\""));
  try {
    tensor.dtype = parse_safetensors_dtype(dtype);
  } catch (const UserError&) { tensor.other = dtype; }  // reported when the tensor is requested
  tensor.shape = strict::naturals(value, "shape", where);
  auto range = strict::naturals(value, "data_offsets", where);
  if (range.size() != 2)
    throw DamagedError(
        str(where, ": \"data_offsets\" has ", range.size(), " numbers; begin and end belong there"));
  if (range[1] < range[0])
    throw DamagedError(str(where, ": \"data_offsets\" ends at ", range[1], ", before its begin ", range[0]));
  if (range[1] > file_bytes - data_start)
    throw DamagedError(str(where, ": bytes ", range[0], "..", range[1], " of the data, but the file holds ",
                           file_bytes - data_start, "; truncated, or a wrong offset"));
  const int64_t elements = strict::elements(tensor.shape, where), size = size_of_element(tensor);
  tensor.bytes = size ? strict::multiply(elements, size, where) : range[1] - range[0];
  if (tensor.bytes != range[1] - range[0])
    throw DamagedError(str(where, ": ", type_text(tensor), " takes ", tensor.bytes,
                           " bytes, but \"data_offsets\" spans ", range[1] - range[0]));
  tensor.offset = data_start + range[0];
  return tensor;
}

// Refuses tensors, sorted by offset, that share bytes of the file or leave some over.
void check_offsets(const SafeTensorsHeader& header, int64_t file_bytes, const std::string& path) {
  int64_t at = header.data_start;
  std::string before = "the header";
  for (const auto& tensor : header.tensors) {
    if (tensor.offset < at)
      throw DamagedError(str(path, ": ", tensor.name, " begins at byte ", tensor.offset, ", inside ", before,
                             " which ends at ", at));
    if (tensor.offset > at)
      throw DamagedError(str(path, ": bytes ", at, "..", tensor.offset, " between ", before, " and ",
                             tensor.name, " belong to no tensor"));
    at = tensor.offset + tensor.bytes;
    before = tensor.name;
  }
  if (at != file_bytes)
    throw DamagedError(str(path, ": ", file_bytes - at, " bytes after ", before, " belong to no tensor"));
}
}  // namespace

SafeTensorsHeader parse_safetensors_header(std::string_view json, int64_t file_bytes,
                                           const std::string& path) {
  if (json.empty() || json[0] != '{')
    throw DamagedError(str(path, ": the header does not begin with '{'; not a safetensors file"));
  Json header = strict::parse(json, str(path, ": header"));
  SafeTensorsHeader out;
  out.data_start = 8 + static_cast<int64_t>(json.size());
  for (const auto& [key, value] : header.items()) {
    std::string where = str(path, ": ", one_line(key));
    if (key == "__metadata__")
      out.metadata = metadata_of(value, where);
    else
      out.tensors.push_back(tensor_of(key, value, out.data_start, file_bytes, where));
  }
  std::stable_sort(out.tensors.begin(), out.tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  check_offsets(out, file_bytes, path);
  return out;
}

}  // namespace lockstep::checkpoint
