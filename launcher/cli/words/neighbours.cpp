// Flags of other launchers, one row per flag.
#include "launcher/cli/words/neighbours.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep::launcher::cli {

namespace {
enum class Value { none, one };

struct Foreign {
  const char* name;      // with '-', for '_' as well
  Value value;           // kind of its value
  const char* harmless;  // the value that equals our behaviour; "*": any or none
  const char* here;      // the counterpart that replaces it, "" for none
  const char* advice;    // the rest of a sentence that begins with the flag
};

constexpr const char* kFound =
    "node 0's mpirun is reached at --rdzv-endpoint HOST:PORT, with --node-rank K on each host; leave it out";
constexpr const char* kCount = "use --nproc N, the number of ranks of a host";
constexpr const char* kAll = "the ranks of all hosts are --nproc N, those of a host, times --nnodes";
constexpr const char* kShown =
    "every rank's output is kept in runs/NAME/logs/attempt-K/rank-R.log, and shown as --tee says; leave it "
    "out";
constexpr const char* kNothing = "Lockstep has nothing that it would set; leave it out";

const Foreign kForeign[] = {
    {"--standalone", Value::none, "*", "", ""},
    {"--num-machines", Value::one, nullptr, "--nnodes", ""},
    {"--machine-rank", Value::one, nullptr, "--node-rank", ""},
    {"--rdzv-backend", Value::one, "*", "", ""},
    {"--rdzv-id", Value::one, "*", "", ""},
    {"--rdzv-conf", Value::one, nullptr, "", kFound},
    {"--main-process-ip", Value::one, nullptr, "--master-addr", ""},
    {"--main-process-port", Value::one, nullptr, "--master-port", ""},
    {"--local-addr", Value::one, nullptr, "",
     "use --network NAME|SUBNET for the interfaces that hosts talk over"},
    {"-np", Value::one, nullptr, "--nproc", ""},
    {"--np", Value::one, nullptr, "--nproc", ""},
    {"--num-processes", Value::one, nullptr, "--nproc", ""},
    {"--num-gpus", Value::one, nullptr, "", kCount},
    {"--gpus", Value::one, nullptr, "", kCount},
    {"--gpus-per-node", Value::one, nullptr, "", kCount},
    {"--ntasks-per-node", Value::one, nullptr, "", kCount},
    {"--tasks-per-node", Value::one, nullptr, "", kCount},
    {"--ntasks", Value::one, nullptr, "", kAll},
    {"--world-size", Value::one, nullptr, "", kAll},
    {"--nodes", Value::one, nullptr, "--nnodes", ""},
    {"--num-nodes", Value::one, nullptr, "--nnodes", ""},
    {"--host", Value::one, nullptr, "--hosts", ""},
    {"--nodelist", Value::one, nullptr, "--hosts", ""},
    {"--local-rank", Value::one, nullptr, "",
     "trainrun starts the ranks and gives each its number in LOCAL_RANK; leave it out"},
    {"--redirects", Value::one, nullptr, "", kShown},
    {"--no-python", Value::none, "*", "", ""},
    {"--module", Value::one, nullptr, "",
     "a target is a config or a program of yours, as in ./program; it is started as it is"},
    {"--monitor-interval", Value::one, nullptr, "", kNothing},
    {"--start-method", Value::one, nullptr, "", kNothing},
    {"--role", Value::one, nullptr, "", kNothing},
    {"--oversubscribe", Value::none, "*", "", ""},
    {"--allow-run-as-root", Value::none, "*", "", ""},
    {"--bind-to", Value::one, "none", "", kNothing},
    {"--map-by", Value::one, nullptr, "", kNothing},
};

const Foreign* find(const std::string& flag) {
  std::string name = flag;
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& row : kForeign)
    if (name == row.name) return &row;
  return nullptr;
}

}  // namespace

std::vector<std::string> without_foreign_flags(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(0, equals);
    const Foreign* row = find(flag);
    if (!row) {
      out.push_back(words[i]);
      continue;
    }
    std::string value = equals == std::string::npos ? "" : words[i].substr(equals + 1);
    if (row->value == Value::one && equals == std::string::npos && i + 1 < words.size()) value = words[++i];
    const std::string harmless = row->harmless ? row->harmless : "";
    if (harmless == "*" || (row->harmless && (value == harmless || value == harmless + ":" + harmless)))
      continue;
    if (*row->here) {
      out.insert(out.end(), {row->here, value});
      continue;
    }
    throw UserError(str(flag, value.empty() ? "" : " " + value, ": ", row->advice));
  }
  return out;
}

bool foreign_flag_with_value(const std::string& word) {
  const Foreign* row = find(word);
  return row && row->value == Value::one;
}

}  // namespace lockstep::launcher::cli
