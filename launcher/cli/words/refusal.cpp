// Rewords the parser's errors by kind. The parser names the option only in its message text.
#include "launcher/cli/words/refusal.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "core/base/near_word.h"
#include "core/base/text.h"

namespace lockstep::launcher::cli {

namespace {
// The given command: "ckpt ls".
CLI::App& innermost(CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}
std::string words_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent && parent->get_parent() ? words_of(*parent) + " " + command.get_name() : command.get_name();
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_min() > 0; }
// "N" of "N:INT in [0 - 9]": behind the last ':' stands what is checked, where something
// is.
std::string value_name(CLI::Option& option) {
  const std::string text = option.get_type_name();
  try {
    option.get_validator(0);
  } catch (const CLI::OptionNotFound&) { return text; }
  return text.substr(0, text.rfind(':'));
}
// As it is typed: RUN, --keep N, --once.
std::string typed(CLI::Option& option) {
  if (option.get_positional()) return value_name(option);
  return str(option.get_name(), takes_value(option) ? " " + value_name(option) : "");
}
// "trainrun ckpt prune RUN --keep N": the required words of a command.
std::string usage(CLI::App& command) {
  std::string out = "trainrun " + words_of(command);
  for (auto* option : command.get_options())
    if (option->get_required()) out += " " + typed(*option);
  return out;
}
std::string help_of(const CLI::App& command) { return str("trainrun ", words_of(command), " --help"); }

std::string quoted_values(std::vector<std::string> values) {
  for (auto& value : values) value = str("\"", shortened(printable(value), 60), "\"");
  if (values.size() < 2) return join(values, "");
  const std::string last = values.back();
  values.pop_back();
  return join(values, ", ") + " and " + last;
}

// The option whose name begins a text, or null.
CLI::Option* named_in(CLI::App& command, const std::string& text) {
  const std::string name = text.substr(0, text.find_first_of(": "));
  return command.get_option_no_throw(name);
}

// Unexpected words, including flags.
std::string extras(CLI::App& app, CLI::App& command) {
  const std::vector<std::string> left = app.remaining(true);
  const std::string usage_words = usage(command);
  const auto flag =
      std::find_if(left.begin(), left.end(), [](const auto& word) { return word.starts_with("-"); });
  if (flag == left.end())
    return str(words_of(command), " has no place for ", quoted_values(left), "; leave ",
               left.size() == 1 ? "it" : "them", " out: ", usage_words);
  const std::string name = flag->substr(0, flag->find('='));
  std::vector<std::string> known;
  for (const auto* option : command.get_options())
    for (const auto& each : option->get_lnames()) known.push_back("--" + each);
  const std::string near = near_word(name, known);
  return str(words_of(command), " has no flag ", shortened(printable(name), 60),
             near.empty() ? str("; ", help_of(command), " lists those that it has")
                          : str("; did you mean ", near, "?"));
}

// A command such as ckpt without its subcommand.
std::string without_command(CLI::App& app, CLI::App& command) {
  std::vector<std::string> names;
  std::string rows;
  size_t width = 0;
  const auto all = command.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
  for (const auto* one : all) names.push_back(one->get_name()), width = std::max(width, names.back().size());
  for (const auto* one : all)
    rows += str("\n  ", one->get_name(), std::string(width - one->get_name().size() + 2, ' '),
                one->get_description());
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty()) return str(words_of(command), " needs one of its commands:", rows);
  const std::string near = near_word(left[0], names);
  return str(
      words_of(command), " has no command \"", shortened(printable(left[0]), 60), "\"",
      near.empty() ? "; it has:" + rows : str("; did you mean trainrun ", words_of(command), " ", near, "?"));
}

std::string required(CLI::App& app, CLI::App& command) {
  for (auto* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return str(words_of(command), ": ",
                 option->get_positional() ? "no " + value_name(*option) : option->get_name(),
                 option->get_positional() ? " is given" : " is required, and is not given", " (",
                 option->get_description(), "); write ", usage(command));
  return without_command(app, command);
}

// Too many values for an option, or none.
std::string mismatch(CLI::Option& option) {
  const auto values = option.results();
  const std::string name = option.get_name();
  if (!takes_value(option)) return str(name, " takes no value; write ", name, " alone, or leave it out");
  if (values.size() > 1)
    return str(name, " is given ", values.size(), " times, as ", quoted_values(values),
               ", and has one value; leave the others out");
  return str(name, " has no value; write ", typed(option), " (", option.get_description(), ")");
}

// What a check wants, in words: "INT in [1 - 1000]", "INT >= 1", "INT", "FLOAT in [0 - 1000]".
std::string wanted(CLI::Option& option) {
  std::string check;
  try {
    check = option.get_validator(0)->get_description();
  } catch (const CLI::OptionNotFound&) { return value_name(option); }
  using Bounds = std::numeric_limits<int64_t>;
  if (check == "INT" || check.starts_with("INT >= "))
    return str("a whole number from ", check == "INT" ? str(Bounds::min()) : check.substr(7), " to ",
               Bounds::max());
  const size_t open = check.find(" in ["), dash = check.find(" - ");
  if (open == std::string::npos || dash == std::string::npos) return value_name(option);
  return str(check.starts_with("FLOAT") ? "a number" : "a whole number", " from ",
             check.substr(open + 5, dash - open - 5), " to ",
             check.substr(dash + 3, check.size() - dash - 4));
}
// A value that the option does not accept.
std::string bad_value(CLI::App& command, CLI::Option& option) {
  const auto values = option.results();
  const std::string name = option.get_positional() ? value_name(option) : option.get_name();
  return str(name, " is ", values.empty() ? "empty" : quoted_values({values.back()}), "; it must be ",
             wanted(option), "; ", help_of(command), " says more");
}
// A word instead of a number, or a fraction instead of an integer.
std::string unconverted(CLI::App& command, const std::string& text) {
  const std::string tag = "Could not convert: ";
  CLI::Option* option = named_in(command, text.starts_with(tag) ? text.substr(tag.size()) : text);
  if (!option || option->results().empty()) return "";
  if (!takes_value(*option)) return mismatch(*option);
  const std::string value = option->results().back();
  char* end = nullptr;
  std::strtod(value.c_str(), &end);
  return str(option->get_name(), " is ", quoted_values({value}), "; it must be a ",
             !value.empty() && *end == '\0' ? "whole number" : "number", "; ", help_of(command),
             " says more");
}
// "--system requires --chat", "--mesh excludes --ranks".
std::string of_two(const std::string& text, const std::string& verb, bool together) {
  const size_t at = text.find(verb);
  const std::string one = text.substr(0, at), other = text.substr(at + verb.size());
  return together ? str(one, " goes with ", other, ", which is not given; add it, or leave ", one, " out")
                  : str(one, " and ", other, " are both given; leave one of them out");
}
}  // namespace

std::string refusal(CLI::App& app, const CLI::ParseError& error) {
  CLI::App& command = innermost(app);
  const std::string text = error.what();
  const auto is = [&](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
  if (is(CLI::ExitCodes::ExtrasError)) return extras(app, command);
  if (is(CLI::ExitCodes::RequiredError)) return required(app, command);
  if (is(CLI::ExitCodes::RequiresError)) return of_two(text, " requires ", true);
  if (is(CLI::ExitCodes::ExcludesError)) return of_two(text, " excludes ", false);
  std::string out;
  CLI::Option* option = named_in(command, text);
  if (is(CLI::ExitCodes::ArgumentMismatch) && option) out = mismatch(*option);
  if (is(CLI::ExitCodes::ValidationError) && option) out = bad_value(command, *option);
  if (is(CLI::ExitCodes::ConversionError)) out = unconverted(command, text);
  return out.empty() ? str(text, "; ", help_of(command), " lists what there is") : out;
}

void refuse_empty(CLI::App& app) {
  CLI::App& command = innermost(app);
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_positional() ? value_name(*option) : option->get_name();
    if (!takes_value(*option) || name == "--prompt" || name == "--system") continue;
    for (const std::string& value : option->results())
      if (value.empty())
        throw UserError(str(name, " is empty, as where a variable is not set; give a value",
                            option->get_required() ? "" : ", or leave it out", ": ", help_of(command)));
  }
}

void refuse_without_value(const std::vector<std::string>& words, const CLI::App& command) {
  for (const std::string& word : words) {
    if (!word.starts_with("--") || !word.ends_with('=')) continue;
    const std::string flag = word.substr(0, word.size() - 1);
    const CLI::Option* option = command.get_option_no_throw(flag);
    if (option && takes_value(*option))
      throw UserError(str(flag, " has no value after its =; give one, or leave it out: ", help_of(command)));
  }
}

}  // namespace lockstep::launcher::cli
