// Reads texts that a command line names: plain files, and the pipes of a shell (<(...), /dev/stdin).
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct GivenText {
  std::string text, problem;  // problem: why there is no text, as in "it is a folder"
};
// Reads at most `limit` bytes of a plain file or of a pipe below /dev or /proc. A FIFO elsewhere is refused
// unread, since it may never have data. A pipe can be read only once, so this process keeps its bytes; a
// second read of the same pipe returns the same text.
GivenText read_given(const std::string& path, int64_t limit);

}  // namespace lockstep
