// Writes a batch script and submits it to sbatch with Boost.Process.
#include "launcher/supervise/hosts/slurm_job.h"

#include <algorithm>
#include <boost/process/child.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "core/base/error.h"
#include "launcher/supervise/launch/command.h"

namespace lockstep::launcher {

namespace bp = boost::process;

namespace {
// Refused: all tasks of an array would run the same command on the same folder.
void refuse_array(const std::string& option) {
  if (option.rfind("--array", 0) != 0 && option.rfind("-a", 0) != 0) return;
  throw UserError(
      str("--slurm: ", option,
          " makes a job array, whose tasks would all be this one run; print the script (--slurm ... "
          "--dry-run), give trainrun in it --name=run-$SLURM_ARRAY_TASK_ID and what differs between the "
          "tasks, as --train.seed=$SLURM_ARRAY_TASK_ID, and submit that: sbatch ",
          option, " SCRIPT"));
}
}  // namespace

std::string slurm_script(const SlurmJob& job) {
  std::string out = "#!/bin/bash\n";
  std::istringstream all(job.options);
  const std::vector<std::string> options{std::istream_iterator<std::string>(all), {}};
  const auto asked = [&](const std::vector<std::string>& names) {
    return std::any_of(options.begin(), options.end(), [&](const std::string& word) {
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return word.rfind(name, 0) == 0; });
    });
  };
  auto option = [&](const std::string& words) {
    refuse_array(words);
    out += str("#SBATCH ", words, "\n");
  };
  option(str("--job-name=", job.name));
  option(str("--nodes=", job.nodes));
  option(str("--ntasks-per-node=", job.ranks));
  if (job.gpus && !asked({"--gpus", "-G", "--gres", "--tres-per"}))
    option(str("--gpus-per-node=", job.ranks));
  if (job.minutes > 0 && !asked({"--time", "-t"})) {
    char time[32];
    std::snprintf(time, sizeof time, "%d:%02d:00", static_cast<int>(job.minutes / 60),
                  static_cast<int>(job.minutes % 60));
    option(str("--time=", time));
  }
  option("--requeue");
  option("--open-mode=append");
  option(str("--output=runs/", job.name, ".slurm-%j.log"));
  option(str("--signal=B:TERM@", static_cast<int64_t>(std::ceil(job.grace)) + 30));
  std::string line;  // an option, and its value if that is a separate word
  for (const std::string& word : options) {
    if (word[0] == '-' && !line.empty()) option(line), line.clear();
    line += str(line.empty() ? "" : " ", word);
  }
  if (!line.empty()) option(line);
  std::string command;
  for (const auto& word : job.words) command += str(command.empty() ? "" : " ", quoted(word));
  out += str("cd ", quoted(job.folder), " || exit 2\n", command, " &\n",
             "run=$!\n"
             "trap 'kill -TERM $run 2>/dev/null' TERM\n"
             "wait $run; code=$?\n"
             "while kill -0 $run 2>/dev/null; do wait $run; code=$?; done\n"
             "# 80: stopped on request, saved. Queued again, the same command goes on from there.\n"
             "[ $code -ne 80 ] || scontrol requeue $SLURM_JOB_ID\n"
             "exit $code\n");
  return out;
}

std::string submit(const std::string& script) {
  const std::string sbatch = found_in_path("sbatch");
  if (sbatch.empty())
    throw UserError(
        "--slurm: sbatch is not found; run it on a host of the cluster, or put Slurm's bin folder into "
        "PATH");
  try {
    bp::opstream to;
    bp::ipstream out, err;
    bp::child child(sbatch, bp::std_in<to, bp::std_out> out, bp::std_err > err);
    to << script << std::flush;
    to.pipe().close();
    const std::string said{std::istreambuf_iterator<char>(out), {}},
        wrong{std::istreambuf_iterator<char>(err), {}};
    child.wait();
    if (child.exit_code() != 0)
      throw UserError(str("--slurm: sbatch refuses: ", trim(wrong.empty() ? said : wrong)));
    return trim(said);
  } catch (const bp::process_error& error) {
    throw UserError(str("--slurm: cannot start sbatch: ", error.code().message()));
  }
}

}  // namespace lockstep::launcher
