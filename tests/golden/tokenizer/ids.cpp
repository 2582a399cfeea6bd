// tokenizer_ids TOKENIZER TEXTS: the ids of texts that NULs divide, as int32 with -1 behind each, to standard
// output; how fast, to standard error. check.py compares them with the package tokenizers.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launcher/data/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 3) return 2;
  try {
    const launcher::data::Tokenizer tokenizer(argv[1]);
    std::ostringstream text;
    text << std::ifstream(argv[2], std::ios::binary).rdbuf();
    std::vector<int32_t> ids;
    const auto began = std::chrono::steady_clock::now();
    for (const auto& record : split(text.str(), '\0')) {
      const auto found = tokenizer.encode(record);
      ids.insert(ids.end(), found.begin(), found.end());
      ids.push_back(-1);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
    std::fprintf(stderr, "%.2f MB/s\n", static_cast<double>(text.str().size()) / 1e6 / seconds);
  } catch (const UserError& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
