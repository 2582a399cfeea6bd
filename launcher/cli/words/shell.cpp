// Generates completion scripts and the manual page.
#include "launcher/cli/words/shell.h"

#include <algorithm>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/config/config.h"
#include "launcher/version.h"

namespace lockstep::launcher::cli {

namespace {
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> out;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    out.push_back(command);
  return out;
}
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options())
    // the others are alternative spellings
    if (!option->get_lnames().empty()) out.push_back("--" + option->get_lnames()[0]);
  return out;
}
std::vector<std::string> key_flags() {
  std::vector<std::string> out;
  for (const auto& row : config_keys()) out.push_back("--" + row.path + "=");
  return out;
}
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string bash_script(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : commands_of(app)) {
    names += (names.empty() ? "" : " ") + command->get_name();
    std::vector<std::string> verbs;
    for (const CLI::App* verb : commands_of(*command)) verbs.push_back(verb->get_name());
    cases += str("    ", command->get_name(), ") words=\"", join(flags_of(*command), " "), "\" verbs=\"",
                 join(verbs, " "), "\" ;;\n");
  }
  return str(
      "# Completion of trainrun's words for bash:   source <(trainrun completion bash)\n"
      "_trainrun() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} command=run words verbs each\n"
      "  local line=\"${COMP_LINE:0:COMP_POINT}\"\n"
      "  word=${line##*[[:space:]]}\n"
      "  for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $each in ",
      [&] {
        std::vector<std::string> all = split(names, ' ');
        return join(all, "|");
      }(),
      ") command=$each; break ;; esac\n"
      "  done\n"
      "  case $command in\n",
      cases,
      "  esac\n"
      "  case $command in run|plan|show|replay) words+=\" ",
      join(key_flags(), " "),
      "\" ;; esac\n"
      "  compopt +o nospace 2>/dev/null\n"
      "  if [[ $word == --*=* ]]; then\n"
      "    COMPREPLY=($(compgen -f -- \"${word#*=}\"))\n"
      "  elif [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\") $(compgen -W \"$verbs\" -- \"$word\"))\n"
      "    ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W \"",
      names,
      "\" -- \"$word\"))\n"
      "  fi\n"
      "  return 0\n"
      "}\n"
      "complete -o filenames -F _trainrun trainrun\n");
}

std::string fish_quoted(std::string text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' || c == '\\' ? str("\\", c) : std::string(1, c);
  return out + "'";
}
std::string fish_script(const CLI::App& app) {
  std::string out = "# Completion of trainrun's words for fish:   trainrun completion fish | source\n";
  for (const CLI::App* command : commands_of(app)) {
    out += str("complete -c trainrun -n __fish_use_subcommand -a ", command->get_name(), " -d ",
               fish_quoted(first_line(command->get_description())), "\n");
    const std::string when = command->get_name() == "run"
                                 ? ""
                                 : str(" -n '__fish_seen_subcommand_from ", command->get_name(), "'");
    for (const CLI::Option* option : command->get_options())
      for (const auto& name : option->get_lnames())
        out += str("complete -c trainrun", when, " -l ", name, " -d ",
                   fish_quoted(first_line(option->get_description())), "\n");
    for (const CLI::App* verb : commands_of(*command))
      out += str("complete -c trainrun", when, " -a ", verb->get_name(), " -d ",
                 fish_quoted(verb->get_description()), "\n");
  }
  for (const auto& row : config_keys())
    out += str("complete -c trainrun -l ", row.path, " -r -d ", fish_quoted(first_line(row.help)), "\n");
  return out;
}

// Text of a roff page: no line begins a request, and a minus stays a minus.
std::string roff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n')) out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else
      out += text[i];
  }
  return out;
}
std::string item(const std::string& head, const std::string& body) {
  return str(".TP\n.B ", roff(head), "\n", roff(body.empty() ? "-" : body), "\n");
}
std::string command_section(const CLI::App& command, const std::string& before) {
  const std::string name = before + command.get_name();
  std::string out = str(".SS trainrun ", roff(name), "\n", roff(command.get_description()), "\n");
  for (const CLI::Option* option : command.get_options())
    if (const std::string words = option->get_name(false, true); words != "-h,--help")
      out += item(words, option->get_description());
  for (const CLI::App* verb : commands_of(command)) out += command_section(*verb, name + " ");
  return out;
}
}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return bash_script(app);
  if (shell == "zsh")
    return "#compdef trainrun\n# Completion of trainrun's words for zsh:   source <(trainrun completion "
           "zsh)\n"
           "autoload -Uz bashcompinit && bashcompinit\n" +
           bash_script(app);
  if (shell == "fish") return fish_script(app);
  throw UserError(str("completion: there is no shell \"", shell, "\"; write bash, zsh or fish"));
}

std::string manual_page(const CLI::App& app) {
  const std::string screen = help_text();
  const size_t about = screen.find('\n');
  std::string out =
      str(".TH TRAINRUN 1 \"\" \"Lockstep ", kVersion, "\" \"Lockstep\"\n.ad l\n.SH NAME\ntrainrun \\- ",
          roff(screen.substr(0, about).substr(screen.find(": ") + 2)),
          "\n.SH SYNOPSIS\n.B trainrun\n[\\fIcommand\\fR] [\\fIflags\\fR] "
          "\\fICONFIG.json\\fR|\\fIPROGRAM\\fR [\\-\\-\\fIa.b\\fR=\\fIVALUE\\fR ...]\n"
          ".SH DESCRIPTION\n.nf\n",
          roff(screen.substr(about + 2)), ".fi\n.SH COMMANDS\n");
  for (const CLI::App* command : commands_of(app)) out += command_section(*command, "");
  out += ".SH CONFIG KEYS\nA config is one JSON object; comments are allowed. Each key is an option, too.\n";
  for (const auto& row : config_keys())
    out += item(row.path, str(row.kinds.empty() ? "" : join(row.kinds, ", ") + ": ", row.help, " (", row.type,
                              "; default ", row.fallback.dump(), ")"));
  out += ".SH ENVIRONMENT\n";
  for (const EnvVar& variable : env_vars()) out += item(variable.name, variable.help);
  return out;
}

}  // namespace lockstep::launcher::cli
