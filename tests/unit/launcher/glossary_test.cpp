// The map: at most 250 lines of at most 110 columns, and a glossary of at most 40 words, each of which
// `trainrun explain` knows.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/words/words.h"

namespace lockstep {
namespace {

std::vector<std::string> lines_of_map() {
  std::ifstream file(LOCKSTEP_MAP);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The first column of the table under "## Glossary".
std::vector<std::string> glossary() {
  std::vector<std::string> words;
  bool inside = false;
  for (const std::string& line : lines_of_map()) {
    if (line.rfind("## ", 0) == 0) inside = line == "## Glossary";
    if (!inside || line.rfind("| ", 0) != 0) continue;
    std::string word = trim(split(line, '|').at(1));
    if (word != "word" && word != "---") words.push_back(word);
  }
  return words;
}

TEST(Map, IsReadInTenMinutes) {
  const auto lines = lines_of_map();
  EXPECT_GE(lines.size(), 100u);
  EXPECT_LE(lines.size(), 250u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_LE(lines[i].size(), 110u) << "line " << i + 1;
}

TEST(Map, GlossaryIsShortAndTrainrunExplainsIt) {
  std::set<std::string> known;
  for (const auto& entry : launcher::cli::house_words())
    for (const auto& name : split(entry.names, '|')) known.insert(trim(name));
  const auto words = glossary();
  EXPECT_GE(words.size(), 30u);
  EXPECT_LE(words.size(), 40u);
  EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), words.size()) << "a word stands twice";
  for (const auto& word : words) {
    EXPECT_TRUE(known.count(word)) << word;
    std::ostringstream said;
    EXPECT_EQ(launcher::cli::explain(word, said), kExitOk) << word;
    EXPECT_NE(said.str().find(word + ": "), std::string::npos) << said.str();
  }
}

}  // namespace
}  // namespace lockstep
