// Fuzz target: a tokenizer.json, a NUL, and a text that it reads.
#include <algorithm>

#include "launcher/data/tokenizer/end_token.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void tokenizer(std::string_view bytes) {
  static const ScratchFolder folder;
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string path = folder.write("tokenizer.json", std::string(bytes.substr(0, end)));
  const std::string_view text = end < bytes.size() ? bytes.substr(end + 1) : "a b";
  answers([&] {
    const launcher::data::Tokenizer tokenizer(path);
    launcher::data::end_token(tokenizer, "auto");
    answers([&] {
      const auto ids = tokenizer.encode(text);
      for (int32_t id : ids) FUZZ_CHECK(id >= 0 && id < tokenizer.ids(), id);
      tokenizer.decode(ids);
    });
  });
}

}  // namespace lockstep::fuzz
