// Texts that a command line names: plain files, and the pipes that a shell makes (<(...), /dev/stdin).
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct GivenText {
  std::string text, problem;  // problem: why there is no text, as in "it is a folder"
};
// The text, of at most `limit` bytes, of a plain file or of a pipe below /dev or /proc. A FIFO elsewhere is
// refused unread: nothing may ever come of it. A pipe gives its bytes once, so this process keeps them, and
// whoever asks for the same pipe again has the same text.
GivenText read_given(const std::string& path, int64_t limit);

}  // namespace lockstep
