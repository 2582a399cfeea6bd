// Parses the flags of care_flags.h; each error lists the allowed values.
#include "launcher/cli/words/care_flags.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "core/base/error.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher::cli {

namespace {
constexpr int64_t kLongestSeconds = 1000000000;

// All of the text as a number of 0 or more, of 9 digits at most; -1 for anything else.
int64_t count_in(const std::string& text) { return text.size() < 10 ? whole_number(text).value_or(-1) : -1; }

void read_restarts(const std::string& text, LaunchOptions& launch) {
  const size_t slash = text.find('/');
  launch.max_restarts = count_in(text.substr(0, slash));
  if (launch.max_restarts < 0)
    throw UserError(str("--max-restarts is \"", shortened(text, 60),
                        "\"; give a number, 0 or more, or a number within a time, as in 3/1h"));
  if (slash != std::string::npos)
    launch.restart_window = read_duration(text.substr(slash + 1), "--max-restarts N/TIME");
}

std::vector<int64_t> read_ranks(const std::string& text, const std::string& flag, int64_t nproc) {
  std::vector<int64_t> out;
  for (const auto& word : split(text, ',')) {
    const int64_t rank = count_in(trim(word));
    if (rank < 0 || rank >= nproc)
      throw UserError(str(flag, " names rank \"", shortened(word, 40), "\"; the ranks are 0 to ", nproc - 1));
    out.push_back(rank);
  }
  return out;
}

// As in torchrun: 3 shows both streams of all ranks, 0 none, R:3,... those of the named ranks.
std::vector<int64_t> read_tee(const std::string& text, int64_t nproc) {
  std::vector<int64_t> out;
  auto shows = [&](const std::string& streams) {
    if (streams != "0" && streams != "3")
      throw UserError(str("--tee ", shortened(text, 60),
                          ": a rank's two streams go to one log, so both are shown or neither: give 3 or 0, ",
                          "for all ranks or as RANK:3,... for some"));
    return streams == "3";
  };
  if (text.find(':') == std::string::npos) {
    for (int64_t rank = 0; shows(text) && rank < nproc; ++rank) out.push_back(rank);
    return out;
  }
  for (const auto& word : split(text, ',')) {
    const size_t colon = word.find(':');
    const auto ranks = read_ranks(word.substr(0, colon), "--tee", nproc);
    if (shows(colon == std::string::npos ? "" : word.substr(colon + 1)))
      out.insert(out.end(), ranks.begin(), ranks.end());
  }
  return out;
}

void read_shown(const CareFlags& flags, LaunchOptions& launch) {
  if (!flags.tee.empty()) launch.shown = read_tee(flags.tee, launch.nproc);
  if (flags.only.empty()) return;
  auto only = read_ranks(flags.only, "--local-ranks-filter", launch.nproc);
  if (launch.shown)
    std::erase_if(only, [&](int64_t rank) {
      return std::find(launch.shown->begin(), launch.shown->end(), rank) == launch.shown->end();
    });
  launch.shown = only;
}

// Only trainrun may set the variables for a process's rank and run folder.
bool is_trainruns(const std::string& name) {
  static const std::set<std::string> names{
      "RANK",          "WORLD_SIZE",       "LOCAL_RANK",       "LOCAL_WORLD_SIZE", "MASTER_ADDR",
      "MASTER_PORT",   "LOCKSTEP_RUN_DIR", "LOCKSTEP_LOG_DIR", "LOCKSTEP_RESTART", "LOCKSTEP_TERMINAL",
      "LOCKSTEP_HOSTS"};
  for (const char* prefix : {"OMPI_COMM_WORLD_", "PMIX_", "PMI_"})
    if (name.rfind(prefix, 0) == 0) return true;
  return names.count(name) > 0;
}

void read_env(const std::string& word, LaunchOptions& launch) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const bool plain =
      !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  if (!plain)
    throw UserError(str("--env is \"", shortened(word, 60), "\"; give NAME=VALUE, or NAME for a variable ",
                        "that is set here"));
  if (is_trainruns(name)) throw UserError(str("--env ", name, ": trainrun sets this variable of each rank"));
  const char* own = std::getenv(name.c_str());
  if (equals == std::string::npos && !own)
    throw UserError(
        str("--env ", name, ": the variable is not set here; set it, or give --env ", name, "=VALUE"));
  const std::string value = equals == std::string::npos ? own : word.substr(equals + 1);
  setenv(name.c_str(), value.c_str(), 1);
  launch.variables.emplace_back(name, value);
}
}  // namespace

CLI::Validator number_within(double least, int64_t most) {
  const std::string range = str("FLOAT in [", least, " - ", most, "]");
  return {[least, most, range](std::string& text) {
            char* end = nullptr;
            errno = 0;  // ERANGE: one that no double holds, which would be read as 0
            const double value = std::strtod(text.c_str(), &end);
            const bool taken = end != text.c_str() && *end == '\0' && errno != ERANGE && value >= least &&
                               value <= static_cast<double>(most);
            return taken ? std::string() : str("Value ", text, " not in range ", range);
          },
          range};
}

CLI::Validator whole_number_within(int64_t least, int64_t most) {
  using Bounds = std::numeric_limits<int64_t>;
  const std::string words = most < Bounds::max()    ? str("INT in [", least, " - ", most, "]")
                            : least > Bounds::min() ? str("INT >= ", least)
                                                    : "INT";
  return {[least, most, words](std::string& text) {
            const auto value = whole_number(text);
            if (!value || *value < least || *value > most) return str("Value ", text, " is not ", words);
            text = str(*value);  // without zeros in front
            return std::string();
          },
          words};
}

double read_duration(const std::string& text, const std::string& flag) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  double seconds = 0;
  for (const auto& [name, size] :
       {std::pair{"", 1.0}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}})
    if (unit == name) seconds = value * size;
  if (end == text.c_str() || !(seconds > 0) || seconds > 1e9)
    throw UserError(str(flag, ": \"", shortened(text, 40),
                        "\" is no time; give seconds, or a number with s, m, h or d, as in 90, 15m, 1.5h"));
  return seconds;
}

NprocRange split_nproc(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

void read_nproc_range(const NprocRange& range, LaunchOptions& launch) {
  const int64_t least = count_in(range.least);
  if (least < 1 || least > launch.nproc)
    throw UserError(str("--nproc is \"", shortened(range.least + ":" + range.most, 60),
                        "\"; give MIN:MAX with 1 <= MIN <= MAX, as in 2:8"));
  if (launch.hosts.several())
    throw UserError(
        str("--nproc ", range.least, ":", range.most,
            " is a range for one host; hosts come and go whole: give --nnodes MIN:MAX, and --nproc ",
            range.most));
  if (launch.min_nproc > 0 && launch.min_nproc != least)
    throw UserError(str("--nproc ", range.least, ":", range.most, " and --min-nproc ", launch.min_nproc,
                        " say different least numbers of ranks; leave --min-nproc out"));
  launch.min_nproc = least;
}

void add_care_flags(CLI::App& app, CareFlags& flags, LaunchOptions& launch) {
  app.add_option("--max-restarts,--max_restarts", flags.max_restarts,
                 "restarts after a rank died, from the last checkpoint; 3/1h: at most 3 within any hour")
      ->type_name("N[/TIME]");
  app.add_option("--min-nproc,--min_nproc", launch.min_nproc,
                 "restart without the ranks that died, down to N; default: always --nproc")
      ->transform(whole_number_within(1))
      ->type_name("N");
  app.add_option("--grow-after,--grow_after", launch.grow_after,
                 "seconds until missing ranks return, at a step boundary; 0: never; default 60")
      ->check(number_within(0, kLongestSeconds))
      ->type_name("SECONDS");
  app.add_option("--slow-host,--slow_host", launch.slow_host,
                 "leave out a host that takes FACTOR times as long as the others, if --nnodes or a spare "
                 "host allows it")
      ->check(number_within(1.5, 1000000))
      ->type_name("FACTOR");
  app.add_option("--timeout", flags.timeout, "stop and save after this time, as in 3600 or 8h; exit code 80")
      ->type_name("TIME");
  app.add_option("--grace", launch.grace, "seconds to finish and save after SIGTERM or SIGINT; default 30")
      ->check(number_within(0, kLongestSeconds))
      ->type_name("SECONDS");
  app.add_option("--deadline", launch.deadlines,
                 "seconds that ranks wait for a peer before the run ends: in steps, or STEPS,START; default "
                 "watch.deadline, 60,600")
      ->type_name("SECONDS");
  app.add_option(
         "--restart-delay,--restart_delay", launch.restart_delay,
         "seconds before a restart; doubles while restarts bring no progress, up to 30; default: 0 after "
         "progress (several hosts: 0.5), else from 0.5 on")
      ->check(number_within(0, kLongestSeconds))
      ->type_name("SECONDS");
  app.add_option("--log-dir,--log_dir", launch.log_dir,
                 "the logs go to DIR/NAME, and runs/NAME/logs is a link to them; default: runs/NAME/logs")
      ->type_name("DIR");
  app.add_option("--keep-attempts,--keep_attempts", launch.keep_attempts,
                 "folders of logs that are kept, the newest; 0: all; default 100")
      ->transform(whole_number_within(0))
      ->type_name("N");
  app.add_option("--tee", flags.tee,
                 "which ranks' output is shown here: 3: all (default), 0: none, 0:3,2:3: ranks 0 and 2; the "
                 "logs have everything")
      ->type_name("3|0|RANK:3,...");
  app.add_option("--local-ranks-filter,--local_ranks_filter", flags.only,
                 "show the output of these ranks only")
      ->type_name("RANK,...");
  app.add_option("--env", flags.env,
                 "a variable for all ranks, on all hosts; NAME without a value: as it is set here")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
}

void read_care_flags(const CareFlags& flags, LaunchOptions& launch) {
  read_restarts(flags.max_restarts, launch);
  if (!flags.timeout.empty()) launch.timeout = read_duration(flags.timeout, "--timeout");
  if (launch.slow_host > 0 && !launch.hosts.several())
    throw UserError(str("--slow-host ", number_text(launch.slow_host),
                        " leaves out one of several hosts, and this run has one; name hosts with --hosts, or "
                        "leave it out"));
  read_shown(flags, launch);
  for (const auto& word : flags.env) read_env(word, launch);
}

}  // namespace lockstep::launcher::cli
