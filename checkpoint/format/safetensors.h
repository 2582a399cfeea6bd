// safetensors: the header of a file of tensors that any reader opens. 8-byte little-endian length, JSON, then
// the bytes of all tensors without holes. Source: the format's own description
// (github.com/huggingface/safetensors, README, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/shape.h"

namespace lockstep::checkpoint {

struct SafeTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t offset = 0;  // of its first byte, from the start of the file
  int64_t bytes = 0;
  std::string other = {};  // the name of a dtype that Lockstep lacks ("I8"); `dtype` is meaningless then
};
std::string type_text(const SafeTensor& tensor);  // "f32[2,3]", "I8[4]"

struct SafeTensorsHeader {
  std::vector<SafeTensor> tensors;              // in order of offset
  std::map<std::string, std::string> metadata;  // "__metadata__"
  int64_t data_start = 0;                       // bytes before the data: 8 + length of the JSON text
};

// The first bytes of a file that holds `tensors` in this order: length, JSON, spaces up to a multiple of 64
// bytes. Fills offset and bytes of each; for a tensor with SafeTensor::other the caller gives the bytes.
// UserError for two tensors of one name and for the reserved name
// "__metadata__".
std::string make_safetensors_header(std::vector<SafeTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

// Length of the JSON text from the first 8 bytes. DamagedError when the file of `file_bytes` cannot hold it,
// or it passes the format's 100 MB.
int64_t safetensors_header_length(std::string_view first_8, int64_t file_bytes, const std::string& path);

// The header from its JSON text. Everything is checked before a byte of data is read: dtype, shape and range
// agree, ranges tile the data of a file of `file_bytes` without overlap, hole or overrun. A tensor with a
// dtype that Lockstep lacks keeps the dtype's name (SafeTensor::other). DamagedError naming path and tensor.
SafeTensorsHeader parse_safetensors_header(std::string_view json, int64_t file_bytes,
                                           const std::string& path);

}  // namespace lockstep::checkpoint
