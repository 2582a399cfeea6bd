// Fuzz target: a data file, as stored tokens of 2 or 4 bytes or as text. The first byte chooses.
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "launcher/data/source.h"
#include "launcher/data/token_form.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void tokens(std::string_view bytes) {
  static const ScratchFolder folder;
  if (bytes.empty()) return;
  const int kind = bytes[0] & 3;
  bytes.remove_prefix(1);
  const std::string path = folder.write("tokens.bin", std::string(bytes));
  launcher::data::looks_binary(reinterpret_cast<const std::byte*>(bytes.data()),
                               static_cast<int64_t>(bytes.size()));
  answers([&] {
    auto source = kind == 0 ? launcher::data::Source::text(path)
                            : launcher::data::Source::stored(path, kind == 1 ? 4 : 2);
    FUZZ_CHECK(source.tokens >= 0 &&
                   source.header + source.tokens * source.width == static_cast<int64_t>(bytes.size()),
               source.tokens);
    if (kind != 0) launcher::data::token_form_error(source, 50257);
    std::vector<int32_t> out(static_cast<size_t>(source.tokens));
    for (int64_t vocab : {int64_t{1} << 31, int64_t{50257}})
      answers([&] {
        source.read(0, source.tokens, vocab, out.data());
        FUZZ_CHECK(std::all_of(out.begin(), out.end(), [&](int32_t id) { return id >= 0 && id < vocab; }),
                   vocab);
      });
  });
}

}  // namespace lockstep::fuzz
