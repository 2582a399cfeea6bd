// The arrays of a NumPy .npz file: members NAME.npy of a zip archive.
#pragma once

#include <string>
#include <vector>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

struct NpzMember {
  std::string name;     // without .npy
  int64_t begin, size;  // of the stored bytes in the archive
  int64_t whole;        // uncompressed bytes
  bool packed;          // by numpy.savez_compressed
  uint32_t crc;         // of the uncompressed bytes, from the archive
};
// UserError naming `path` for a file that is not an archive, is truncated, or compresses a member by another
// method.
std::vector<NpzMember> npz_members(const FileBytes& file, const std::string& path);

// Decompresses a member. UserError when it is damaged or has another CRC-32.
std::vector<std::byte> unpacked(const FileBytes& file, const NpzMember& member, const std::string& path);

}  // namespace lockstep::launcher::data
