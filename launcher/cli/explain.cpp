// trainrun explain: one word, looked up in every table that a user can meet.
#include <algorithm>
#include <ostream>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ops/op.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/words.h"
#include "launcher/config/neighbours.h"

namespace lockstep::launcher::cli {

namespace {

struct Word {
  std::string name, text;
};

const std::vector<Word>& fixed_words() {
  static const std::vector<Word> words = {
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
       "A program of your own threw an exception that nobody caught: its type, text and, with -g, line are "
       "told. Never restarted. Exit code 1."},
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
  return words;
}

void explain_key(const ConfigKey& row, std::ostream& out) {
  out << row.path << ": " << row.help << "\n  " << row.type << ", default " << row.fallback.dump() << "\n";
  if (!row.kinds.empty())
    out << "  of " << (row.path.starts_with("model.") ? "model.kind " : "task.kind ") << join(row.kinds, ", ")
        << "\n";
  if (!row.rule.choices.empty()) out << "  one of: " << join(row.rule.choices, ", ") << "\n";
  out << "  on the command line: --" << row.path << "="
      << (row.fallback.is_string() ? row.fallback.get<std::string>() : row.fallback.dump()) << "\n";
}

const char* kind_text(OpKind kind) {
  switch (kind) {
    case OpKind::pointwise:
      return "pointwise: each element from the elements at its own index";
    case OpKind::creation:
      return "creation: made from attributes alone";
    case OpKind::random:
      return "random: Philox by global element index";
    case OpKind::reduce:
      return "reduction over dims, which vanish";
    case OpKind::view:
      return "view: the same elements elsewhere";
    case OpKind::index:
      return "index: elements chosen by another tensor";
    case OpKind::contract:
      return "contraction";
    case OpKind::composite:
      return "composite: kept whole until it is decomposed or claimed by a library kernel";
    case OpKind::update:
      return "update: writes state";
    case OpKind::lanes:
      return "lanes: the reduction over micro-batches";
    case OpKind::collective:
      return "collective";
    case OpKind::structural:
      return "structural";
  }
  return "";
}

}  // namespace

int explain(const std::string& word, std::ostream& out) {
  std::vector<std::string> known;
  bool found = false;
  for (const auto& flag : run_flags()) {
    for (const auto& name : flag.names) {
      if (name == word) out << "--" << name << " " << flag.type << ": " << flag.help << "\n", found = true;
      known.push_back(name);
    }
  }
  for (const auto& row : config_keys()) {
    if (row.path == word || row.path.rfind(word + ".", 0) == 0 || row.path.ends_with("." + word))
      explain_key(row, out), found = true;
    known.push_back(row.path);
    const auto& choices = row.rule.choices;
    if (std::find(choices.begin(), choices.end(), word) != choices.end())
      out << row.path << "=" << word << ": " << row.help << "\n", found = true;
  }
  for (const auto& entry : fixed_words()) {
    if (entry.name == word) out << entry.text << "\n", found = true;
    known.push_back(entry.name);
  }
  for (const auto& entry : house_words())
    for (const auto& name : split(entry.names, '|')) {
      if (trim(name) == word) out << trim(name) << ": " << entry.text << "\n", found = true;
      known.push_back(trim(name));
    }
  for (const auto& variable : env_vars()) {
    if (variable.name == word)
      out << variable.name << " (default \"" << variable.fallback << "\"): " << variable.help << "\n",
          found = true;
    known.push_back(variable.name);
  }
  for (const auto& topic : logs::topics()) {
    if (topic.name == word) out << "LOCKSTEP_LOGS=" << topic.name << ": " << topic.help << "\n", found = true;
    known.push_back(topic.name);
  }
  for (const Op* row : all_ops()) {
    const Op& op = *row;
    if (op.id.name() == word) {
      out << "op " << op.id << "\n  " << kind_text(op.kind) << "\n  "
          << (op.vjp ? "differentiable" : "not differentiable") << "\n  "
          << (op.expand ? "expands into primitives" : "a primitive") << "\n";
      found = true;
    }
    known.emplace_back(op.id.name());
  }
  if (found) return kExitOk;
  std::string elsewhere = neighbour(word);
  if (auto value = neighbour_value(word); elsewhere.empty() && !value.empty())
    elsewhere = str("what others call so is \"", value, "\" here");
  if (!elsewhere.empty()) {
    out << word << ": " << elsewhere << "\n";
    return kExitOk;
  }
  auto near = word.size() < 100 ? nearest(word, known) : "";
  throw UserError(
      str("explain: nothing is called \"", shortened(word, 60), "\"",
          near.empty() ? "" : str("; did you mean ", near, "?"),
          "; it knows config keys, ops, exit codes, kinds of errors, LOCKSTEP_* variables, log "
          "topics and words such as lane, bucket and certificate; functions that are no ops are told in "
          "Python, by help(lockstep.NAME)"));
}

}  // namespace lockstep::launcher::cli
