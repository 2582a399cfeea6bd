// Reading any safetensors file: its header, and its tensors into arrays of any layout.
#pragma once

#include "checkpoint/format/safetensors.h"
#include "checkpoint/storage/storage.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

// DamagedError when the file is not well-formed (see parse_safetensors_header).
SafeTensorsHeader read_safetensors_header(const InFile& file, const std::string& path);

// Fills the pieces of `array` from a stored tensor of the same shape; a narrower stored float is widened
// exactly. Through a buffer of kBlockBytes.
void read_safetensor(const InFile& file, const SafeTensor& tensor, Array& array);

}  // namespace lockstep::checkpoint
