// Session: a program of the user's own as a worker. Under trainrun it takes its place among the ranks; alone
// it is a mesh of one rank.
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
  // Joins the ranks and builds the mesh: [dp_replicate = all ranks], or what --mesh.shape=[...] and
  // --mesh.dim_names=[...] say. The device is that of --train.device=WORD (auto), as in a config; what the
  // program compiles runs there. --train.precision=WORD is for train(). These arguments are taken out; the
  // others are left in arguments(), but for what looks like another key of a config (--optim.lr=), which a
  // program sets itself: UserError. Steps are compiled for OMP_NUM_THREADS threads, else for the cores over
  // the ranks of this host. An exception that leaves main is reported as trainrun expects it (message,
  // record, exit code). At most one Session per process. UserError for a mesh that does not fit the ranks, or
  // a device that is not there.
  Session(int argc, char** argv);
  ~Session();
  Session(const Session&) = delete;

  // Keys of a config that it reads: "mesh.shape".
  static const std::vector<std::string>& keys();

  const LiveMesh& mesh() const { return live_; }
  int rank() const { return live_.world->rank(); }
  int local_ranks() const { return local_ranks_; }  // ranks of this host
  Device& device() const { return *device_; }
  const std::vector<std::string>& arguments() const { return arguments_; }
  // As the program was started: its name and all its arguments.
  const std::vector<std::string>& command() const { return command_; }
  // Argument i, or `otherwise` where there are not as many; as a number, UserError naming it where it is
  // none.
  std::string argument(size_t i, const std::string& otherwise) const;
  int64_t number(size_t i, int64_t otherwise) const;
  // Where trainrun plan started the program: who answers; else null.
  const PlannedSession* planned() const { return planned_.get(); }
  // What --train.precision=WORD says: fp32, tf32, bf16, fp16 or float8; "" where no argument says so. train()
  // computes in it, else in what the program chose by State::compute_dtype and State::float8.
  const std::string& precision() const { return precision_; }
  // As report(), of any metrics; without any, only the supervisor is told.
  void progress(int64_t step, const std::map<std::string, double>& values);
  // Prints "step I  name value ..." on rank 0, and tells the supervisor that step I is done.
  void report(int64_t step, std::initializer_list<std::pair<const char*, float>> values);
  // Leaves the ranks now: all meet. Collective.
  void finish();
  // Leaves the ranks where the process ends, by the exit code: with 0, or after a stop (80), all meet. With
  // another one this rank has failed, and says so to trainrun: it joins no barrier, for which its peers may
  // not be ready. The destructor does it.
  void end();
  // What trainrun is told where the process ends with this code, "SystemExit: 7 (raised at train.py:12)".
  static void explain_exit(int code, const std::string& words);
  // Leaves the ranks and ends the process with this exit code; what stdio holds is written. Collective.
  [[noreturn]] void leave(int code);
  bool stop_requested() const;  // SIGTERM or SIGINT came: agree with the other ranks, save and leave

 private:
  void plan_instead(const launcher::PlanRequest& request, const Shape& shape,
                    const std::vector<std::string>& names, const std::string& device);

  std::shared_ptr<distributed::World> world_;  // null: a plan is made, without ranks
  std::shared_ptr<const PlannedSession> planned_;
  LiveMesh live_;
  int local_ranks_ = 1;
  double reported_s_ = 0, waited_s_ = 0;  // at the last report
  Device* device_ = nullptr;
  std::vector<std::string> arguments_, command_;
  std::string precision_;
};

}  // namespace lockstep
