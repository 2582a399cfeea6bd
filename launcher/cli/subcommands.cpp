// The names of the subcommands, and words that nobody means as a config.
#include "launcher/cli/subcommands.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/error.h"

namespace lockstep::launcher::cli {

namespace {
const std::vector<std::string> kSubcommands = {
    "run",       "plan",      "show",       "explain", "ckpt",        "generate", "replay",
    "bisect",    "report",    "flight",     "autopsy", "top",         "doctor",   "env",
    "import-hf", "export-hf", "completion", "man",     "doctor-rank", "worker"};
constexpr size_t kOwn = 2;  // the last ones are started by others of them
// Words of other command lines, that nobody means as the name of a config.
const std::map<std::string, std::string> kElsewhere = {
    {"train", "training is trainrun [run] CONFIG"},
    {"eval", "a run validates by itself: train.eval_every"},
    {"evaluate", "a run validates by itself: train.eval_every"},
    {"validate", "a run validates by itself: train.eval_every"},
    {"predict", "trainrun generate RUN --prompt TEXT writes text; a program of your own has ls.forward"},
    {"chat", "trainrun generate RUN --chat answers"},
    {"serve", "trainrun export-hf RUN OUT writes a folder that servers of models read"},
    {"finetune", "tuning is training with train.init_from: trainrun CONFIG --train.init_from=runs/NAME"},
    {"tune", "tuning is training with train.init_from: trainrun CONFIG --train.init_from=runs/NAME"},
    {"merge", "trainrun export-hf RUN OUT merges adapters into the weights"},
    {"export", "trainrun export-hf RUN OUT writes a Hugging Face folder"},
    {"import", "trainrun import-hf DIR --name=NAME reads a Hugging Face folder"},
    {"convert", "trainrun import-hf and export-hf read and write Hugging Face folders"},
    {"launch", "training is trainrun [run] CONFIG"},
    {"test", "a run validates by itself: train.eval_every"},
    {"resume", "a run resumes by itself: the same command goes on from its newest checkpoint"},
    {"config", "trainrun show CONFIG prints a config, trainrun show --reference all keys"},
    {"version", "trainrun --version prints it"},
    {"ls", "trainrun ckpt ls RUN lists a run's checkpoints"},
    {"cat", "trainrun ckpt cat RUN TENSOR prints a tensor"},
    {"verify", "trainrun ckpt verify RUN reads a run's checkpoints against their checksums"},
    {"diff", "trainrun ckpt diff A B compares two checkpoints"},
    {"prune", "trainrun ckpt prune RUN --keep N removes older checkpoints"},
    {"reshard", "trainrun ckpt reshard RUN OUT --ranks N writes a checkpoint anew"},
    {"average", "trainrun ckpt average A B OUT writes the mean of checkpoints"},
    {"check", "trainrun doctor looks at this machine"}};

// The command that a word begins, or is a slip of: people rarely miss the first letter. Empty: none.
std::string nearest_command(const std::string& word) {
  const std::vector<std::string> commands{kSubcommands.begin(), kSubcommands.end() - kOwn};
  for (const auto& command : commands)
    if (!word.empty() && command.starts_with(word)) return command;
  const std::string near = nearest(word, commands);
  return !near.empty() && near[0] == word[0] ? near : "";
}

}  // namespace

std::vector<std::string> with_subcommand(std::vector<std::string> words) {
  const bool subcommand =
      words.size() > 1 && std::find(kSubcommands.begin(), kSubcommands.end(), words[1]) != kSubcommands.end();
  if (words.size() > 1 && words[0] == "help") {
    if (!subcommand)
      throw UserError(str("help: there is no command \"", words[1], "\"; the commands are ",
                          join({kSubcommands.begin(), kSubcommands.end() - kOwn}, ", ")));
    return {words[1], "--help"};
  }
  if (!words.empty() && words[0].find_first_of("./") == std::string::npos &&
      !std::filesystem::exists(words[0]))
    if (auto found = kElsewhere.find(words[0]); found != kElsewhere.end())
      throw UserError(str("there is no command \"", words[0], "\": ", found->second, "; the commands are ",
                          join({kSubcommands.begin(), kSubcommands.end() - kOwn}, ", ")));
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--version" ||
      words[0] == "help")
    return words;
  if (std::find(kSubcommands.begin(), kSubcommands.end(), words[0]) == kSubcommands.end()) {
    const bool word = words[0].find_first_of("./") == std::string::npos && words[0][0] != '-';
    const std::string near = word && !std::filesystem::exists(words[0]) ? nearest_command(words[0]) : "";
    if (!near.empty())
      throw UserError(str("there is no command \"", words[0], "\"; did you mean trainrun ", near, "?"));
    words.insert(words.begin(), "run");
  }
  return words;
}

}  // namespace lockstep::launcher::cli
