// Session: the rank's place, its mesh, and the end of the process.
#include "launcher/api/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>
#include <utility>

#include "compiler/compile/plan_observer.h"
#include "compiler/pass/pass.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/mesh/together.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/open_world.h"
#include "distributed/watch/flight_record.h"
#include "launcher/api/environment.h"
#include "launcher/api/memory_check.h"
#include "launcher/api/planned_session.h"
#include "launcher/machine/hosts.h"
#include "launcher/machine/run_device.h"
#include "launcher/supervise/hosts/other_launcher.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/trainer/fingerprint.h"
#include "launcher/trainer/options.h"

namespace lockstep {

using namespace distributed;
using namespace launcher;

namespace {
// A list as JSON or with bare words: [2,-1], ["dp_shard","tp"], [dp_shard,tp].
std::vector<std::string> words_of(const std::string& argument, std::string text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    throw UserError(str(argument, ": write a list, as in [2,-1] or [dp_replicate,tp]"));
  std::vector<std::string> out;
  for (const auto& part : split(text.substr(1, text.size() - 2), ',')) {
    std::string word = trim(part);
    if (word.size() >= 2 && word.front() == '"' && word.back() == '"') word = word.substr(1, word.size() - 2);
    out.push_back(word);
  }
  return out;
}
// OMP_NUM_THREADS, which trainrun sets for its ranks, else the machine's cores divided by the ranks on it.
int threads_of(int64_t local_ranks) {
  const char* given = std::getenv("OMP_NUM_THREADS");
  const int64_t threads = given ? std::atoll(given) : 0;
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  return static_cast<int>(threads > 0 && threads <= 1024
                              ? threads
                              : std::max<int64_t>(1, cores / std::max<int64_t>(1, local_ranks)));
}
// Refuses arguments that look like config keys which a program does not read. A program's own arguments do
// not begin with a config section.
void refuse_config_key(const std::string& argument) {
  const std::vector<std::string>& read = Session::keys();
  static const char* const sections[] = {"mesh.",    "train.", "optim.",  "batch.",  "checkpoint.", "log.",
                                         "compile.", "watch.", "verify.", "resume.", "launch."};
  if (argument.rfind("--", 0) != 0) return;
  const std::string key = argument.substr(2, argument.find('=') - 2);
  if (std::none_of(std::begin(sections), std::end(sections),
                   [&](const char* section) { return key.rfind(section, 0) == 0; }))
    return;
  // A misspelling by a letter or two, not another key of the section.
  std::string near = nearest(key, read);
  const size_t word = key.find('.') + 1;
  if (near.substr(0, word + 1) != key.substr(0, word + 1) || near.size() + 2 < key.size() ||
      key.size() + 2 < near.size())
    near.clear();
  throw UserError(str(argument, ": ",
                      near.empty() ? "a program sets this itself, and the argument would do nothing"
                                   : str("did you mean --", near, "=?"),
                      "; of a config's keys a program reads --", join(read, ", --")));
}
}  // namespace

const std::vector<std::string>& Session::keys() {
  static const std::vector<std::string> keys{"mesh.shape", "mesh.dim_names", "train.device",
                                             "train.precision"};
  return keys;
}

namespace {
// The state needed to leave the world at process exit.
struct Ending {
  std::shared_ptr<World> world;
  pid_t process = 0;  // the process that opened it: a forked child is not a rank
  int code = 0;
  std::string words;  // the message for an exit with `code`
};
Ending& ending() {
  static auto* out = new Ending;  // never freed, because it is read after static destructors
  return *out;
}
}  // namespace

Session::Session(int argc, char** argv) : command_(argv, argv + argc) {
  std::set_terminate([] { leave_worker(std::current_exception()); });
  join_other_launcher(command_);
  WorkerPlace place = enter_worker(Main::user);
  check_environment();
  local_ranks_ = static_cast<int>(place.local_world_size);
  Shape shape{-1};
  std::vector<std::string> names{"dp_replicate"};
  std::string device = "auto";
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.rfind("--mesh.shape=", 0) == 0) {
      shape.clear();
      for (const auto& word : words_of(argument, argument.substr(13))) {
        char* end = nullptr;
        shape.push_back(std::strtoll(word.c_str(), &end, 10));
        if (word.empty() || *end) throw UserError(str(argument, ": \"", word, "\" is no size"));
      }
    } else if (argument.rfind("--mesh.dim_names=", 0) == 0) {
      names = words_of(argument, argument.substr(17));
    } else if (argument.rfind("--train.device=", 0) == 0) {
      device = argument.substr(15);
    } else if (argument.rfind("--train.precision=", 0) == 0) {
      precision_ = argument.substr(18);
      dtype_of_precision(precision_);  // throws for other words
    } else {
      refuse_config_key(argument);
      arguments_.push_back(argument);
    }
  }
  if (const std::string planned = env("LOCKSTEP_PLAN"); !planned.empty()) {
    plan_instead(plan_request(planned), shape, names, device);
    return;
  }
  world_ = open_world();
  ending().process = getpid();
  Group& all = *world_->group();
  if (all.size() > 1) compare(all, "before the ranks are grouped", {program_part()});
  live_ = live_mesh(world_, together(all, [&] { return resolve_mesh(shape, names, world_->size()); }));
  if (all.size() > 1) {
    const int64_t here = launched_per_node(all, place);
    join_nodes(live_, *world_, here, data_ranks_per_node(live_.words, here));
  }
  const compiler::Target& target = open_device(live_, device, place.local_rank, place.local_world_size);
  device_ = &target.device();
  compiler::set_default_target(target);
  compiler::set_default_threads(threads_of(place.local_world_size));
  compiler::set_plan_observer(MemoryCheck(place, target));
}

// There are no real ranks; the first compiled step is planned.
void Session::plan_instead(const PlanRequest& request, const Shape& shape,
                           const std::vector<std::string>& names, const std::string& device) {
  planned_ = std::make_shared<PlannedSession>(request, resolve_mesh(shape, names, request.nproc), device);
  const PlannedSession& planned = *planned_;
  live_ = planned.mesh();
  local_ranks_ = static_cast<int>(request.nproc);
  device_ = &planned.target().device();
  compiler::set_default_target(planned.target());
  compiler::set_default_threads(threads_of(request.nproc));
  compiler::set_plan_observer(planned);
}

namespace {
void leave_world(int status, void*) {
  const int code = status & 0xff;  // the part that a parent process sees
  Ending& of = ending();
  if (of.process != getpid()) return;
  const std::shared_ptr<World> world = std::exchange(of.world, nullptr);
  if (!world) return;
  if (code == kExitOk || code == kExitStopped) return world->finish();
  if (!worker_place().supervised()) return;  // the exit code reports it
  const char* kind = code == kExitUser       ? "UserError"
                     : code == kExitPeer     ? "PeerError"
                     : code == kExitInternal ? "InternalError"
                                             : kProgramError;
  const bool known = of.code == code && !of.words.empty();
  leave_worker(
      {{.kind = kind, .message = known ? of.words : str("the program ended with exit code ", code)}, code},
      true);
}
}  // namespace

void Session::finish() {
  if (const auto world = std::exchange(world_, nullptr)) world->finish();
}

void Session::end() {
  if (!world_) return;
  ending().world = std::exchange(world_, nullptr);
  on_exit(leave_world, nullptr);  // registered late, so that it runs before other handlers and destructors
}

void Session::explain_exit(int code, const std::string& words) {
  ending().code = code;
  ending().words = words;
}

Session::~Session() {
  if (std::uncaught_exceptions() == 0) end();
}

std::string Session::argument(size_t i, const std::string& otherwise) const {
  return i < arguments_.size() ? arguments_[i] : otherwise;
}
int64_t Session::number(size_t i, int64_t otherwise) const {
  if (i >= arguments_.size()) return otherwise;
  char* end = nullptr;
  const long long out = std::strtoll(arguments_[i].c_str(), &end, 10);
  if (arguments_[i].empty() || *end)
    throw UserError(str("argument ", i + 1, " is \"", arguments_[i], "\"; it must be a whole number"));
  return out;
}

void Session::report(int64_t step, std::initializer_list<std::pair<const char*, float>> values) {
  std::map<std::string, double> all;
  for (const auto& [name, value] : values) all[name] = value;
  progress(step, all);
}

void Session::progress(int64_t step, const std::map<std::string, double>& values) {
  // The time between two reports is a step; without the waits for others, it is this rank's own work.
  if (auto recorder = flight_recorder()) {
    const double now = static_cast<double>(flight_clock_ns()) * 1e-9, waited = recorder->waited();
    if (reported_s_ > 0) recorder->worked(now - reported_s_, waited - waited_s_, 0);
    reported_s_ = now;
    waited_s_ = waited;
  }
  enter_pace(Pace::steps);
  report_step(step);
  if (rank() != 0 || values.empty()) return;
  std::string line = str("step ", step);
  for (const auto& [name, value] : values)
    line += str("  ", name, " ", number_text(static_cast<float>(value)));
  std::puts(line.c_str());
  std::fflush(stdout);
}

void Session::leave(int code) {
  finish();
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);
}

bool Session::stop_requested() const { return launcher::stop_requested(); }

}  // namespace lockstep
