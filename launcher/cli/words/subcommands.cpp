// The names of the subcommands, and words that cannot be meant as a config.
#include "launcher/cli/words/subcommands.h"

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
constexpr const char* kWritesText = "trainrun generate RUN --prompt TEXT writes text";
// Words of other command lines, that nobody means as the name of a config.
const std::map<std::string, std::string> kElsewhere = {
    {"train", "training is trainrun [run] CONFIG"},
    {"eval", "a run validates by itself: train.eval_every"},
    {"evaluate", "a run validates by itself: train.eval_every"},
    {"validate", "a run validates by itself: train.eval_every"},
    {"infer", kWritesText},
    {"inference", kWritesText},
    {"sample", kWritesText},
    {"benchmark", "trainrun plan CONFIG predicts a step's time, and a run's log tells what it took"},
    {"bench", "trainrun plan CONFIG predicts a step's time, and a run's log tells what it took"},
    {"profile", "trainrun --profile=N CONFIG traces N steps of a run"},
    {"trace", "trainrun --profile=N CONFIG traces N steps of a run"},
    {"lint", "trainrun show CONFIG checks a config"},
    {"download", "a model is a folder that is here already: trainrun import-hf DIR --name=NAME reads it"},
    {"quantize",
     "weights are not kept in 4 or 8 bits in this version; trainrun export-hf RUN OUT "
     "--dtype=bf16 writes them in bf16"},
    {"python", "a program is named by its file: trainrun train.py"},
    {"python3", "a program is named by its file: trainrun train.py"},
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
    {"resume", "a run resumes by itself: the same command continues from its newest checkpoint"},
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

// Whether a word names no file, nor looks like one or like a flag.
bool is_bare(const std::string& word) {
  return !word.empty() && word.find_first_of("./") == std::string::npos && word[0] != '-' &&
         !std::filesystem::exists(word);
}
std::string all_commands() { return join({kSubcommands.begin(), kSubcommands.end() - kOwn}, ", "); }

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
      throw UserError(str("help: there is no command \"", words[1], "\"; the commands are ", all_commands()));
    return {words[1], "--help"};
  }
  if (!words.empty() && is_bare(words[0]))
    if (auto found = kElsewhere.find(words[0]); found != kElsewhere.end())
      throw UserError(str("there is no command \"", words[0], "\": ", found->second, "; the commands are ",
                          all_commands()));
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--version" ||
      words[0] == "help")
    return words;
  if (std::find(kSubcommands.begin(), kSubcommands.end(), words[0]) == kSubcommands.end()) {
    if (const std::string near = is_bare(words[0]) ? nearest_command(words[0]) : ""; !near.empty())
      throw UserError(str("there is no command \"", words[0], "\"; did you mean trainrun ", near, "?"));
    if (is_bare(words[0]) && words.size() > 1 && words[1][0] != '-')
      throw UserError(str("there is no command \"", shortened(printable(words[0]), 60),
                          "\", nor a config of that name; the commands are ", all_commands()));
    words.insert(words.begin(), "run");
  }
  return words;
}

}  // namespace lockstep::launcher::cli
