// The kinds of words that `trainrun explain` knows.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

struct ExplainedKind {
  std::string name;                   // `trainrun explain NAME` lists the words
  std::string what;                   // "config keys"
  std::vector<std::string> examples;  // words that people often ask for
  std::string also;                   // a command that lists them with their meanings; "" for none
  std::vector<std::string> words;
};
std::vector<ExplainedKind> explained_kinds();

// Exit codes and kinds of errors, with what they mean.
struct ExplainedCode {
  std::string name, text;
};
const std::vector<ExplainedCode>& explained_codes();

// Lists the kinds: a line per kind, with its count and examples.
void print_kinds(std::ostream& out);
// Prints the words of a kind, several on a line; false if there is no such kind.
bool print_words(const std::string& kind, std::ostream& out);

}  // namespace lockstep::launcher::cli
