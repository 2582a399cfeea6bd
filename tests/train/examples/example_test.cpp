// examples/gpt.cpp, run alone and by trainrun on two ranks: the same losses, and a run that goes on where it
// was.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/text.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

// Output of a command run in a folder; the test fails when it does.
std::string output_of(const ScratchFolder& folder, const std::string& command) {
  std::string file = folder.path("output");
  int status =
      std::system(str("cd ", folder.path(""), " && timeout 100 ", command, " > ", file, " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(status, 0) << command << "\n" << text.str();
  return text.str();
}
std::vector<std::string> step_lines(const std::string& output) {
  std::vector<std::string> lines;
  for (const auto& line : split(output, '\n'))
    if (line.rfind("step ", 0) == 0) lines.push_back(line);
  return lines;
}
double loss_of(const std::string& line) { return std::stod(line.substr(line.rfind(' ') + 1)); }

const std::string kExample = LOCKSTEP_EXAMPLE, kTrainrun = LOCKSTEP_TRAINRUN, kTokens = LOCKSTEP_TOKENS;

TEST(Example, OneAndTwoRanksPrintTheSameLosses) {
  ScratchFolder folder;
  auto one = step_lines(output_of(folder, str(kExample, " ", kTokens, " runs/one 40")));
  auto two =
      step_lines(output_of(folder, str(kTrainrun, " --nproc 2 ", kExample, " ", kTokens, " runs/two 40")));
  ASSERT_EQ(one.size(), 40u);
  EXPECT_EQ(one, two);
  EXPECT_LT(loss_of(one.back()), loss_of(one.front()) - 0.5);
}

// The same program on a device whose memory the host cannot address.
TEST(Example, ComputesOnTheDeviceThatItIsGiven) {
  ScratchFolder folder;
  auto cpu = step_lines(output_of(folder, str(kExample, " ", kTokens, " runs/cpu 12 --train.device=cpu")));
  auto far = step_lines(output_of(folder, str(kTrainrun, " --nproc 2 ", kExample, " ", kTokens,
                                              " runs/far 12 --train.device=plugin:", FAR_DEVICE)));
  ASSERT_EQ(cpu.size(), 12u);
  EXPECT_EQ(far, cpu);
}

TEST(Example, ARunGoesOnFromItsCheckpointOnAnotherNumberOfRanks) {
  ScratchFolder folder;
  auto whole = step_lines(output_of(folder, str(kExample, " ", kTokens, " runs/whole 40")));
  // Interrupted after the checkpoint of step 20: the files of the first run, without the later checkpoint.
  ASSERT_EQ(
      std::system(str("cp -r ", folder.path("runs/whole"), " ", folder.path("runs/part"), " && rm -r ",
                      folder.path("runs/part/ckpt/step-40"), " && rm ", folder.path("runs/part/ckpt/latest"))
                      .c_str()),
      0);
  auto rest =
      step_lines(output_of(folder, str(kTrainrun, " --nproc 2 ", kExample, " ", kTokens, " runs/part 40")));
  ASSERT_EQ(rest.size(), 20u);
  EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 20, whole.end()));
}

TEST(Example, ADeviceThatIsNoneIsRefused) {
  ScratchFolder folder;
  std::string file = folder.path("output");
  int status =
      std::system(str(kExample, " ", kTokens, " runs/x 1 --train.device=gpu > ", file, " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_NE(text.str().find("train.device is \"gpu\"; choose auto | cpu | cuda | cuda:N | plugin:PATH"),
            std::string::npos)
      << text.str();
}

TEST(Example, AMeshThatDoesNotFitIsRefused) {
  ScratchFolder folder;
  std::string file = folder.path("output");
  int status =
      std::system(str(kExample, " ", kTokens, " runs/x 1 --mesh.shape=[3] > ", file, " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(WEXITSTATUS(status), 2) << text.str();
  EXPECT_NE(text.str().find("multiplies out to 3, but there are 1 ranks"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace lockstep
