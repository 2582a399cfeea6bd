// The kinds of words that `trainrun explain` knows.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

struct ExplainedKind {
  std::string name;                   // `trainrun explain NAME` lists the words
  std::string what;                   // "config keys"
  std::vector<std::string> examples;  // of the words, what people ask for
  std::string also;                   // a command that lists them with what they mean; "" for none
  std::vector<std::string> words;
};
std::vector<ExplainedKind> explained_kinds();

// Exit codes and kinds of errors, with what they mean.
struct ExplainedCode {
  std::string name, text;
};
const std::vector<ExplainedCode>& explained_codes();

// What there is: a line per kind, with its count and examples.
void print_kinds(std::ostream& out);
// The words of the kind of this name, several on a line; false where no kind has it.
bool print_words(const std::string& kind, std::ostream& out);

}  // namespace lockstep::launcher::cli
