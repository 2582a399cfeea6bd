// Session: makes a user program a worker. Under trainrun it joins the ranks; alone it is a mesh of one rank.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/world.h"
#include "launcher/plan/request.h"

namespace lockstep {

class PlannedSession;

class Session {
 public:
  // Joins the ranks and builds the mesh: [dp_replicate = all ranks], or as given by --mesh.shape=[...] and
  // --mesh.dim_names=[...]. Compiled steps run on the device of --train.device=WORD (auto), as in a config.
  // --train.precision=WORD is for train(). These arguments are removed; the others stay in arguments(). Other
  // config keys (--optim.lr=) give a UserError, because a program sets these itself. Steps are compiled for
  // OMP_NUM_THREADS threads, else for the cores divided by the ranks of this host. An exception that leaves
  // main is reported as trainrun expects (message, record, exit code). At most one Session per process.
  // UserError for a mesh that does not fit the ranks, or a missing device.
  Session(int argc, char** argv);
  ~Session();
  Session(const Session&) = delete;

  // The config keys that it reads: "mesh.shape".
  static const std::vector<std::string>& keys();

  const LiveMesh& mesh() const { return live_; }
  int rank() const { return live_.world->rank(); }
  int local_ranks() const { return local_ranks_; }  // ranks of this host
  Device& device() const { return *device_; }
  const std::vector<std::string>& arguments() const { return arguments_; }
  // The original command line: the program's name and all arguments.
  const std::vector<std::string>& command() const { return command_; }
  // Argument i, or `otherwise` if there are fewer; as a number, with a UserError naming it if it is not one.
  std::string argument(size_t i, const std::string& otherwise) const;
  int64_t number(size_t i, int64_t otherwise) const;
  // The PlannedSession if trainrun plan started the program; else null.
  const PlannedSession* planned() const { return planned_.get(); }
  // The value of --train.precision=WORD: fp32, tf32, bf16, fp16 or float8; "" without it. train() computes in
  // it, else in the program's choice by State::compute_dtype and State::float8.
  const std::string& precision() const { return precision_; }
  // Like report(), for any metrics; without metrics it only informs the supervisor.
  void progress(int64_t step, const std::map<std::string, double>& values);
  // Prints "step I  name value ..." on rank 0, and informs the supervisor that step I is done.
  void report(int64_t step, std::initializer_list<std::pair<const char*, float>> values);
  // Leaves the ranks now, after a barrier. Collective.
  void finish();
  // Leaves the ranks at process exit, depending on the exit code. For 0 or a stop (80) all ranks meet at a
  // barrier. Any other code means that this rank failed: it reports that to trainrun and skips the barrier,
  // for which its peers may not be ready. The destructor does this.
  void end();
  // Sets the message to trainrun for an exit with this code, "SystemExit: 7 (raised at train.py:12)".
  static void explain_exit(int code, const std::string& words);
  // Leaves the ranks and ends the process with this exit code, after flushing stdio. Collective.
  [[noreturn]] void leave(int code);
  bool stop_requested() const;  // SIGTERM or SIGINT came: agree with the other ranks, save and leave

 private:
  void plan_instead(const launcher::PlanRequest& request, const Shape& shape,
                    const std::vector<std::string>& names, const std::string& device);

  std::shared_ptr<distributed::World> world_;  // null: planning without ranks
  std::shared_ptr<const PlannedSession> planned_;
  LiveMesh live_;
  int local_ranks_ = 1;
  double reported_s_ = 0, waited_s_ = 0;  // at the last report
  Device* device_ = nullptr;
  std::vector<std::string> arguments_, command_;
  std::string precision_;
};

}  // namespace lockstep
