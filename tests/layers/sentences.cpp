// Sentences of the documentation as lists of words, and those that are too long.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>

#include "core/base/text.h"
#include "tests/layers/check.h"
#include "tests/layers/tree.h"

namespace fs = std::filesystem;

namespace lockstep::layers {

namespace {

constexpr size_t kMostWords = 35;

// Prose without what is read in one look: a span of code is one word, a link is its words.
std::string plain(const std::string& block) {
  std::string out;
  for (size_t i = 0; i < block.size(); ++i) {
    const char close = block[i] == '`' ? '`' : block.compare(i, 2, "](") == 0 ? ')' : 0;
    const size_t end = close ? block.find(close, i + 1) : std::string::npos;
    if (end == std::string::npos) {
      out += block[i];
      continue;
    }
    if (close == '`') out += "code";
    i = end;
  }
  return out;
}

bool ends_sentence(const std::string& word) {
  const size_t last = word.find_last_not_of(")\"*_");
  return last != std::string::npos && std::string(".!?").find(word[last]) != std::string::npos;
}

// The violations of one paragraph or item of a list, which begins on a line of the file.
void check(const std::string& file, size_t line, const std::string& block, Lines& out) {
  std::istringstream words(plain(block));
  Lines sentence;
  auto end = [&] {
    if (sentence.size() > kMostWords)
      out.push_back(str(file, ":", line, ": a sentence of ", sentence.size(), " words (\"", sentence[0], " ",
                        sentence[1], " ", sentence[2], " ...\"); say it in sentences of at most ",
                        kMostWords));
    sentence.clear();
  };
  for (std::string word; words >> word;) {
    const bool counts =
        std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c); });
    if (counts) sentence.push_back(word);
    if (ends_sentence(word)) end();
  }
  end();
}

Lines pages(const fs::path& root) {
  Lines out;
  for (const char* name : {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"})
    if (fs::exists(root / name)) out.push_back(name);
  if (fs::exists(root / "docs"))
    for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
      if (entry.path().extension() == ".md" && entry.path().filename() != "faults.md")
        out.push_back(entry.path().lexically_relative(root).generic_string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Lines long_sentences(const fs::path& root) {
  static const std::regex item(R"(^([-*]|\d+\.) +)");
  Lines out;
  for (const auto& file : pages(root)) {
    const Lines lines = lines_of(read(root / file));
    std::string block;
    size_t begin = 0;
    bool code = false;
    auto end = [&] {
      check(file, begin, block, out);
      block.clear();
    };
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string line = trim(lines[i]);
      const bool fence = line.starts_with("```"), starts = std::regex_search(line, item);
      if (fence) code = !code;
      const bool prose = !fence && !code && !line.empty() && line[0] != '|' && line[0] != '#';
      if (!prose || starts) end();
      if (!prose) continue;
      if (block.empty()) begin = i + 1;
      block += (starts ? std::regex_replace(line, item, "") : line) + " ";
    }
    end();
  }
  return out;
}

}  // namespace lockstep::layers
