// The arrays of a file .npz of numpy: members NAME.npy of a zip archive.
#pragma once

#include <string>
#include <vector>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

struct NpzMember {
  std::string name;     // without .npy
  int64_t begin, size;  // of its bytes in the archive, as they are stored
  int64_t whole;        // bytes when unpacked
  bool packed;          // by numpy.savez_compressed
  uint32_t crc;         // of the bytes when unpacked, as the archive says
};
// UserError naming `path` for a file that is no archive, is cut short, or packs a member otherwise.
std::vector<NpzMember> npz_members(const FileBytes& file, const std::string& path);

// The bytes of a member that is packed. UserError where they are damaged, or have another CRC-32.
std::vector<std::byte> unpacked(const FileBytes& file, const NpzMember& member, const std::string& path);

}  // namespace lockstep::launcher::data
