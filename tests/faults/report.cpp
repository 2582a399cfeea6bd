// Makes docs/faults.md of the records that the tests of this folder left: faults_report CATALOGUE TESTS
// RECORDS > docs/faults.md TESTS has the name of every test, one a line; a test without a record failed or
// was skipped, and its row says so.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <vector>

#include "core/base/json.h"
#include "core/base/text.h"

namespace lockstep {
namespace {

using Records = std::vector<std::pair<std::string, Json>>;  // of a row: tests, and what each left

constexpr int kBeside = 40;  // rows of greater numbers stand beside the catalogue

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') out.push_back(line);
  return out;
}

// "Row06OneRank" -> 6; 0 where the name has no number.
int number_of(const std::string& test) {
  return test.rfind("Row", 0) == 0 && test.size() > 5 ? std::atoi(test.substr(3, 2).c_str()) : 0;
}

// "Row41NoRankListens" -> "No rank listens".
std::string words_of(const std::string& test) {
  std::string out;
  for (char c : test.substr(5))
    out += std::isupper(c) && !out.empty() ? str(" ", std::string(1, static_cast<char>(std::tolower(c))))
                                           : std::string(1, c);
  return out;
}

std::string cell(const Json& record, const char* key) {
  std::string out;
  for (char c : record.value(key, std::string()))
    out += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return out.empty() ? "-" : out;
}

std::string line(const std::string& first, const Json& record, const std::string& test) {
  std::string out = str("| ", first, " |");
  if (record.is_null())
    return str(out, " ", test, " | not shown on the machine that made this page | - | - | - | - | - |\n");
  for (const char* key : {"fault", "seen", "code", "detected", "recovered", "lost", "same_bits"})
    out += str(" ", cell(record, key), " |");
  return out + "\n";
}

constexpr const char* kStepsLost =
    "Steps lost: a run that ends by a fault goes on from its newest checkpoint that is written. Beside the "
    "training\n(`checkpoint.async`) the save due last may not be, which makes less than twice "
    "`checkpoint.every`; with\n`checkpoint.memory_every` the newest in memory counts, too "
    "([checkpoints](checkpoint.md#in-memory)).\n\n";
constexpr const char* kHead =
    "| # | what was done | what the user sees | exit | detected | goes on by | steps lost | same bits |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n";

// Why a row of the catalogue does not hold on this machine; "" where it does.
std::string why_not(const Records& row) {
  std::vector<std::string> missing;
  std::string lacks;
  for (const auto& [test, record] : row)
    if (record.is_object())
      lacks += record.value("not_here", std::string());
    else
      missing.push_back(test);
  if (row.empty()) return "not shown: it has no test";
  if (!missing.empty()) return str("not shown: ", join(missing, ", "), " failed, or was skipped");
  return lacks.empty() ? "" : str("shown on another machine: this one ", lacks);
}

int make(const std::string& catalogue, const std::string& tests, const std::string& records) {
  std::map<int, Records> rows;
  for (const auto& test : lines_of(tests)) {
    std::ifstream file(records + "/" + test + ".json");
    rows[number_of(test)].emplace_back(test, file ? Json::parse(file, nullptr, false) : Json());
  }
  std::string body, exceptions;
  int ok = 0, all = 0;
  for (const auto& entry : lines_of(catalogue)) {
    const int number = std::atoi(entry.c_str());
    const std::string title = entry.substr(entry.find(' ') + 1);
    body += str("| ", number, " | **", title, "** | | | | | | |\n");
    for (const auto& [test, record] : rows[number]) body += line("", record, test);
    const std::string reason = why_not(rows[number]);
    ++all, ok += reason.empty();
    if (!reason.empty()) exceptions += str("\nRow ", number, " (", title, ") is ", reason, ".");
  }
  std::string beside;
  for (const auto& [number, tests_of] : rows)
    if (number > kBeside)
      for (const auto& [test, record] : tests_of) beside += line(words_of(test), record, test);
  std::cout << "# Faults, and what a run does about them\n\n"
            << "Made by the tests of `tests/faults` (`scripts/faults.sh`): every line is a test that made "
               "the fault in a real run, saw the words "
               "and the exit\n"
            << "code, and compared the end with the unfaulted run. Times are those of the machine that made "
               "this page, with tiny models.\n\n"
            << ok << " of " << all << " rows hold on the machine that made this page." << exceptions << "\n\n"
            << kStepsLost << kHead << body << "\n## Beside the catalogue\n\n"
            << kHead << beside;
  return ok == 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "faults_report CATALOGUE TESTS RECORDS\n", 2;
  return lockstep::make(argv[1], argv[2], argv[3]);
}
