// Recognises a git-lfs pointer, the text in place of a large file in a clone without git-lfs.
#pragma once

#include <string_view>

namespace lockstep {

// Checks the first bytes of a file: eight bytes distinguish a pointer from numbers, more bytes from other
// text.
inline bool is_lfs_pointer(std::string_view begin) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  return begin.size() >= 8 && begin.substr(0, kBegin.size()) == kBegin.substr(0, begin.size());
}
inline constexpr const char* kLfsPointer =
    "is a pointer of git-lfs, and the file that it represents is not here; fetch it with git lfs pull";

}  // namespace lockstep
