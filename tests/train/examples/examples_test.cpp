// The programs of examples/ as a user starts them: alone and by trainrun, on every arrangement of data ranks,
// in both precisions. Each ends with one state, and learns on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/base/text.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

struct Example {
  std::string name;
  int steps = 12;
  bool falls = true;   // the loss at the last step is below that of the first
  bool mixes = false;  // the samples of its micro-batches, which is told
};
const Example kExamples[] = {
    {.name = "bert"},
    {.name = "clip", .mixes = true},
    {.name = "dlrm"},
    {.name = "ema"},
    {.name = "gan", .falls = false},
    {.name = "groups"},
    {.name = "lion"},
    {.name = "lora"},
    {.name = "lstm"},
    {.name = "mlp"},
    {.name = "moe", .mixes = true},
    {.name = "muon"},
    {.name = "own_op"},
    {.name = "regression"},
    {.name = "resnet"},
    {.name = "t5"},
    {.name = "vae"},
    {.name = "vit"},
    {.name = "wgan_gp", .falls = false},
};

std::string program(const Example& example) {
  std::string name = example.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return str(PROGRAMS, "/example-", name);
}

// Lines about steps of a command's output, without what time says; the test fails when the command does.
std::vector<std::string> lines_of(const ScratchFolder& folder, const std::string& command,
                                  std::string* said = nullptr) {
  const std::string file = folder.path("output");
  const int status = std::system(str("cd ", folder.path(""), " && LOCKSTEP_CACHE=", KERNEL_CACHE,
                                     " timeout 100 ", command, " > ", file, " 2>&1")
                                     .c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(status, 0) << command << "\n" << text.str();
  if (said) *said = text.str();
  static const std::regex measured(R"(^step \d+: (predicted|measured) .*)"),
      pace(R"((  [0-9.]+[kM]? samples/s)?(  ETA [0-9:]+)?$)");
  std::vector<std::string> lines;
  for (const auto& line : split(text.str(), '\n'))
    if (line.rfind("step ", 0) == 0 && !std::regex_match(line, measured))
      lines.push_back(std::regex_replace(line, pace, "", std::regex_constants::format_first_only));
  return lines;
}
double loss_of(const std::string& line) {
  const size_t at = line.find("  loss ");
  EXPECT_NE(at, std::string::npos) << line;
  return at == std::string::npos ? 0 : std::stod(line.substr(at + 7));
}

class Examples : public testing::TestWithParam<Example> {};

TEST_P(Examples, EndWithOneStateOnEveryMesh) {
  const Example& example = GetParam();
  std::map<std::string, std::string> last;
  for (const std::string precision : {"fp32", "bf16"}) {
    ScratchFolder folder;
    const std::string arguments = str(example.steps, " --train.device=cpu --train.precision=", precision);
    std::string said;
    const auto alone = lines_of(folder, str(program(example), " runs/alone ", arguments), &said);
    EXPECT_EQ(said.find("mixes the samples of a micro-batch") != std::string::npos, example.mixes) << said;
    ASSERT_GE(alone.size(), 3u);
    EXPECT_EQ(alone.back().rfind(str("step ", example.steps, ": state "), 0), 0u) << alone.back();
    if (example.falls) { EXPECT_LT(loss_of(alone[alone.size() - 2]), loss_of(alone[0])) << precision; }
    last[precision] = alone.back();

    const std::map<std::string, std::string> meshes = {
        {"ddp-2", "2"},
        {"ddp-3", "3"},
        {"fsdp-2", "2 --mesh.dim_names=[dp_shard]"},
        {"hsdp-4", "4 --mesh.shape=[2,2] --mesh.dim_names=[dp_replicate,dp_shard]"}};
    for (const auto& [name, ranks] : meshes) {
      const size_t space = ranks.find(' ');
      const auto lines =
          lines_of(folder, str(TRAINRUN, " --nproc ", ranks.substr(0, space), " ", program(example), " runs/",
                               name, " ", arguments, space == std::string::npos ? "" : ranks.substr(space)));
      EXPECT_EQ(lines, alone) << precision << ", " << name;
    }
  }
  EXPECT_NE(last["fp32"], last["bf16"]);  // so the precision was taken
}
INSTANTIATE_TEST_SUITE_P(Every, Examples, testing::ValuesIn(kExamples),
                         [](const auto& info) { return info.param.name; });

TEST(ExamplesTable, HasEveryProgramOfTheFolder) {
  std::set<std::string> written, told = {"gpt"};  // it reads a file of tokens: example_test
  for (const auto& entry : std::filesystem::directory_iterator(EXAMPLES))
    if (entry.path().extension() == ".cpp") written.insert(entry.path().stem());
  for (const auto& example : kExamples) told.insert(example.name);
  EXPECT_EQ(told, written);
}

TEST(ExamplesTable, AWordThatIsNoOptimizerIsRefused) {
  ScratchFolder folder;
  const std::string file = folder.path("output");
  const int status =
      std::system(str(PROGRAMS, "/example-lion ", folder.path("run"), " 1 lyon > ", file, " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_NE(text.str().find("the optimizer is \"lyon\"; choose lion, adamw, sgd, rmsprop or adagrad"),
            std::string::npos)
      << text.str();
}

}  // namespace
}  // namespace lockstep
