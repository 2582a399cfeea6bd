// The kinds of words: the table of each kind, and its examples.
#include "launcher/cli/words/explained.h"

#include <algorithm>
#include <ostream>

#include "core/base/env.h"
#include "core/base/log.h"
#include "core/ops/op.h"
#include "launcher/cli/words/flags.h"
#include "launcher/cli/words/words.h"

namespace lockstep::launcher::cli {

const std::vector<ExplainedCode>& explained_codes() {
  static const std::vector<ExplainedCode> codes = {
      {"UserError",
       "The input is wrong: config, data, checkpoint or program. Fix what the message names; it is never "
       "restarted. Exit code 2."},
      {"PeerError",
       "A rank died, hung or disagrees. --max-restarts N restarts from the last checkpoint; so does the same "
       "command. Exit code 75."},
      {"InternalError",
       "A condition of Lockstep's own does not hold: a defect. The message has file, line and condition. "
       "Exit code 70."},
      {"0", "Exit code 0: the run is complete."},
      {"ProgramError",
       "Your own program threw an exception that it did not catch: its type, text and, with -g, line are "
       "reported. Never restarted. Exit code 1."},
      {"1",
       "Exit code 1: a program of your own failed: an exception of its own that nobody caught, or an exit "
       "code of its own, which the message "
       "names. Of trainrun replay: the step came out otherwise than the run recorded it; the table names "
       "what differs."},
      {"2", "Exit code 2: UserError. The input is wrong; the message names it and the way out."},
      {"70",
       "Exit code 70: InternalError, or a rank that died of SIGSEGV, SIGBUS, SIGABRT, SIGILL or SIGFPE."},
      {"75",
       "Exit code 75: PeerError, or a rank that was killed or left early. The same command continues from "
       "the last checkpoint."},
      {"80",
       "Exit code 80: stopped by SIGTERM or SIGINT; the step was finished and the state saved. The same "
       "command continues."},
      {"130",
       "Exit code 130: killed by a second SIGINT, or when the grace after SIGINT was over. The last "
       "checkpoint holds."},
      {"134", "Exit code 134 of a program: it died of SIGABRT (6). trainrun itself answers with 70 then."},
      {"137",
       "Exit code 137 of a shell or a container: SIGKILL (9), most often because memory ran out (dmesg, or "
       "the "
       "container's limit); trainrun plan CONFIG says what a run needs. trainrun whose rank was killed "
       "answers "
       "with 75, and names the rank; the same command continues from the last checkpoint."},
      {"139", "Exit code 139 of a program: it died of SIGSEGV (11). trainrun itself answers with 70 then."},
      {"143",
       "Exit code 143: killed by a second SIGTERM, or when the grace after SIGTERM was over. The last "
       "checkpoint holds."},
  };
  return codes;
}

std::vector<ExplainedKind> explained_kinds() {
  ExplainedKind keys{
      "keys", "config keys", {"optim.clip", "batch.micro", "optim"}, "trainrun show --reference", {}};
  for (const auto& row : config_keys()) keys.words.push_back(row.path);
  ExplainedKind flags{"flags", "flags of trainrun run", {"nproc", "max-restarts"}, "trainrun run --help", {}};
  for (const auto& flag : run_flags())
    flags.words.insert(flags.words.end(), flag.names.begin(), flag.names.end());
  ExplainedKind ops{"ops", "ops", {"softmax", "cross_entropy"}, "", {}};
  for (const Op* row : all_ops()) ops.words.emplace_back(row->id.name());
  ExplainedKind words{"words", "words of messages and pages", {"lane", "bucket", "certificate"}, "", {}};
  for (const auto& entry : house_words())
    for (const auto& name : split(entry.names, '|')) words.words.push_back(trim(name));
  ExplainedKind codes{"codes", "exit codes and kinds of errors", {"75", "PeerError"}, "", {}};
  for (const auto& entry : explained_codes()) codes.words.push_back(entry.name);
  ExplainedKind variables{"variables", "environment variables", {"LOCKSTEP_CACHE"}, "trainrun env", {}};
  for (const auto& variable : env_vars()) variables.words.emplace_back(variable.name);
  ExplainedKind topics{"topics", "topics of LOCKSTEP_LOGS", {"fusion", "passes"}, "trainrun env", {}};
  for (const auto& topic : logs::topics()) topics.words.emplace_back(topic.name);
  return {keys, flags, ops, words, codes, variables, topics};
}

void print_kinds(std::ostream& out) {
  out << "trainrun explain WORD explains a word; trainrun explain KIND lists the words of a kind:\n\n";
  const auto kinds = explained_kinds();
  size_t name = 0, what = 0;
  for (const auto& kind : kinds)
    name = std::max(name, kind.name.size()), what = std::max(what, kind.what.size());
  for (const auto& kind : kinds) {
    const std::string count = str(kind.words.size());
    out << "  " << kind.name << std::string(name - kind.name.size() + 2, ' ')
        << std::string(4 - std::min<size_t>(4, count.size()), ' ') << count << " " << kind.what
        << std::string(what - kind.what.size() + 2, ' ') << "as " << join(kind.examples, ", ")
        << (kind.also.empty() ? "" : str("; all: ", kind.also)) << "\n";
  }
  out << "\nIt also explains words of other frameworks, such as hidden_size or gradient_checkpointing. "
         "Python's help(lockstep.NAME) explains functions and layers.\n";
}

bool print_words(const std::string& kind, std::ostream& out) {
  constexpr size_t kWidth = 100;
  const auto kinds = explained_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& one) { return one.name == kind; });
  if (found == kinds.end()) return false;
  std::string line;
  for (const auto& word : found->words) {
    if (!line.empty() && line.size() + 2 + word.size() > kWidth) out << line << "\n", line.clear();
    line += str(line.empty() ? "" : "  ", word);
  }
  out << line << "\n";
  return true;
}

}  // namespace lockstep::launcher::cli
