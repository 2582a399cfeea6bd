// trainrun explain: looks a word up in every table of user-visible words.
#include <algorithm>
#include <ostream>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/near_word.h"
#include "core/ir/print.h"
#include "core/ops/op.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/words/explained.h"
#include "launcher/cli/words/flags.h"
#include "launcher/cli/words/words.h"
#include "launcher/config/neighbours.h"

namespace lockstep::launcher::cli {

namespace {

void explain_key(const ConfigKey& row, std::ostream& out) {
  out << row.path << ": " << row.help << "\n";
  for (const auto& other : other_meanings(row))
    out << "  of " << join(other.kinds, ", ") << ": " << other.text << "\n";
  const std::string range = range_text(row.rule);
  out << "  " << row.type << (range.empty() ? "" : ", " + range) << ", default " << row.fallback.dump();
  for (const auto& other : other_defaults(row))
    out << "; " << other.text << " of " << join(other.kinds, ", ");
  out << "\n";
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

const char* type_text(AttrType type) {
  switch (type) {
    case AttrType::flag:
      return "true or false";
    case AttrType::integer:
      return "an integer";
    case AttrType::number:
      return "a number";
    case AttrType::word:
      return "a word";
    case AttrType::list:
      return "integers";
    case AttrType::dtype:
      return "a dtype";
  }
  return "";
}

std::string types_list(const std::vector<TypedShape>& types) {
  std::vector<std::string> out;
  for (const auto& type : types) out.push_back(shape_text(type.dtype, type.shape));
  return join(out, ", ");
}

// Inputs and output of the row's first sample: "softmax(f32[2,3]) -> f32[2,3]".
void explain_op(const Op& op, std::ostream& out) {
  out << "op " << op.id << "\n";
  if (!op.samples.empty()) {
    const Sample& sample = op.samples[0];
    out << "  as in " << op.id << "(" << types_list(sample.in) << ")"
        << (sample.attrs.items().empty() ? "" : " " + text(sample.attrs)) << " -> "
        << types_list(infer(op, {op.id, sample.in, sample.attrs, SourceLine{}})) << "\n";
  }
  std::vector<std::string> attrs;
  for (const auto& field : op.attrs)
    attrs.push_back(
        str(field.name, " (", type_text(field.type), field.optional ? ", may be left out)" : ")"));
  if (!attrs.empty()) out << "  attributes: " << join(attrs, ", ") << "\n";
  out << "  " << kind_text(op.kind) << "\n  " << (op.vjp ? "differentiable" : "not differentiable") << "\n  "
      << (op.expand ? "expands into primitives" : "a primitive") << "\n";
  if (op.kind != OpKind::lanes && op.kind != OpKind::collective && op.kind != OpKind::structural && !op.own)
    out << "  its function: in Python help(lockstep." << op.id << "), in C++ core/functions\n";
}

// Prints the entries of the word tables; false if there are none.
bool explain_words(const std::string& word, std::ostream& out) {
  bool found = false;
  for (const auto& entry : explained_codes())
    if (entry.name == word) out << entry.text << "\n", found = true;
  for (const auto& entry : house_words())
    for (const auto& name : split(entry.names, '|'))
      if (trim(name) == word) out << trim(name) << ": " << entry.text << "\n", found = true;
  for (const auto& variable : env_vars())
    if (variable.name == word)
      out << variable.name << " (default \"" << variable.fallback << "\"): " << variable.help << "\n",
          found = true;
  for (const auto& topic : logs::topics())
    if (topic.name == word) out << "LOCKSTEP_LOGS=" << topic.name << ": " << topic.help << "\n", found = true;
  return found;
}

// The same for command lines and configs: flags, keys, sections, values of keys.
bool explain_options(const std::string& word, std::ostream& out) {
  bool found = false;
  for (const auto& flag : run_flags())
    for (const auto& name : flag.names)
      if (name == word) out << "--" << name << " " << flag.type << ": " << flag.help << "\n", found = true;
  for (const auto& row : config_keys()) {
    // Matches the key, its last part, or an enclosing section by its full name or last part.
    if (str(".", row.path, ".").find(str(".", word, ".")) != std::string::npos)
      explain_key(row, out), found = true;
    const auto& choices = row.rule.choices;
    if (std::find(choices.begin(), choices.end(), word) != choices.end())
      out << row.path << "=" << word << ": " << row.help << "\n", found = true;
  }
  return found;
}

[[noreturn]] void refuse(const std::string& word) {
  std::vector<std::string> known, kinds;
  for (const auto& kind : explained_kinds()) {
    known.insert(known.end(), kind.words.begin(), kind.words.end());
    kinds.push_back(kind.what);
  }
  for (const auto& row : config_keys())  // a section, and a key by its last part
    for (const auto& part : split(row.path, '.')) known.push_back(part);
  const std::string near = near_word(word, known);
  throw UserError(str("explain: nothing is called \"", shortened(word, 60), "\"",
                      near.empty()
                          ? str("; trainrun explain lists what can be explained: ", join(kinds, ", "),
                                "; Python's help(lockstep.NAME) explains functions that are not ops")
                          : str("; did you mean ", near, "?")));
}

}  // namespace

int explain(const std::string& word, std::ostream& out) {
  if (word.empty()) {
    print_kinds(out);
    return kExitOk;
  }
  bool found = explain_options(word, out);
  found = explain_words(word, out) || found;
  for (const Op* op : all_ops())
    if (op->id.name() == word) explain_op(*op, out), found = true;
  if (found || print_words(word, out)) return kExitOk;
  std::string elsewhere = neighbour(word);
  if (auto value = neighbour_value(word); elsewhere.empty() && !value.empty())
    elsewhere = str("what others call so is \"", value, "\" here");
  if (elsewhere.empty()) refuse(word);
  out << word << ": " << elsewhere << "\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
