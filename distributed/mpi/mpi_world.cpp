// MpiGroup over a communicator, and MPI's world: start, split, and the two ways to end.
#include "distributed/mpi/mpi_world.h"

#include <dlfcn.h>
#include <mpi.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include "core/base/env.h"
#include "core/base/error.h"
#include "distributed/checksummed_group.h"
#include "distributed/mpi/mpi_progress.h"
#include "distributed/mpi/mpi_types.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

namespace {

class MpiWork : public Work {
 public:
  MpiWork(std::shared_ptr<MpiProgress> progress, std::shared_ptr<MpiFlight> flight, double deadline_s)
      : progress_(std::move(progress)), flight_(std::move(flight)), deadline_s_(deadline_s) {}
  // The caller's buffers may be freed after this, so nothing may write to them any more.
  ~MpiWork() override {
    if (!waited_ && !flight_->finished())
      progress_->halt(
          str(flight_->site(), " was dropped on rank ", flight_->group().rank, " before its wait"));
  }
  bool done() override { return flight_->finished(); }
  void wait(Stream& stream) override {
    waited_ = true;
    stream.run([progress = progress_, flight = flight_, seconds = deadline_s_] {
      const int64_t begin = flight_clock_ns();
      const bool finished = flight->wait_for(seconds);
      if (auto recorder = flight_recorder())
        recorder->waited(static_cast<double>(flight_clock_ns() - begin) * 1e-9);
      if (finished) return;
      auto& group = flight->group();
      std::string text = deadline_text(group.name, group.rank, group.size, flight->what(), flight->label(),
                                       seconds, "a peer is late, has ended, or is at another collective");
      PeerError error(text);
      flight->finish(std::make_exception_ptr(error));
      progress->halt(text);
      throw error;
    });
  }

 private:
  std::shared_ptr<MpiProgress> progress_;
  std::shared_ptr<MpiFlight> flight_;
  double deadline_s_;
  bool waited_ = false;
};

class MpiGroup : public Group {
 public:
  MpiGroup(std::shared_ptr<MpiProgress> progress, MPI_Comm comm, const std::string& name,
           const MpiOptions& options, bool checked, uint64_t instance)
      : progress_(std::move(progress)), comm_(comm), max_count_(options.max_count) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    int rank = 0, size = 0;
    MPI_Comm_rank(comm_, &rank);
    MPI_Comm_size(comm_, &size);
    std::vector<int> mine(size), world_ranks(size);
    for (int r = 0; r < size; ++r) mine[r] = r;
    MPI_Group here, world;
    MPI_Comm_group(comm_, &here);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(here, size, mine.data(), world, world_ranks.data());
    MPI_Group_free(&here);
    MPI_Group_free(&world);
    identity_ = identify_group(name, world_ranks, rank, instance);
    deadline_s_ = options.deadline_s;
    if (size > 1 && checked) order_ = std::make_shared<MpiOrder>();
  }
  int rank() const override { return identity_.rank; }
  int size() const override { return identity_.size; }
  const std::string& name() const override { return identity_.name; }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    check_collective(what, rank(), size());
    note_issued(what, label);
    auto flight = std::make_shared<MpiFlight>(comm_, identity_, what, label, max_count_);
    bool pair = std::holds_alternative<Send>(what) || std::holds_alternative<Recv>(what);
    const SitePlace place = pair ? SitePlace{} : trail_.next(what, label);
    stream.run([progress = progress_, flight, place, order = order_] {
      flight->mark_started(place, order);
      try {
        progress->submit(flight);
      } catch (...) {
        flight->finish(std::current_exception());
        throw;
      }
    });
    return std::make_shared<MpiWork>(progress_, flight, deadline());
  }

 private:
  std::shared_ptr<MpiProgress> progress_;
  MPI_Comm comm_;
  int64_t max_count_;
  GroupIdentity identity_;
  std::shared_ptr<MpiOrder> order_;  // null: no order check
  SiteTrail trail_;
};

// Whether messages between ranks of this world leave the memory of a host: there are several hosts, or Open
// MPI is configured without shared memory.
bool leaves_memory() {
  MPI_Comm here;
  int size = 0, neighbours = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_size(here, &neighbours);
  MPI_Comm_free(&here);
  const char* given = std::getenv("OMPI_MCA_btl");
  const std::string transports = given ? given : "vader";
  const bool named =
      transports.find("vader") != std::string::npos || transports.find("sm") != std::string::npos;
  return neighbours < size || named == (transports[0] == '^');
}

// Open MPI looks for its plugins at the path it was built for. A wheel ships the library with a folder
// `openmpi` next to it (scripts/wheel.sh), so this function sets that path.
void find_plugins() {
  Dl_info library{};
  if (!dladdr(reinterpret_cast<const void*>(&MPI_Init_thread), &library) || !library.dli_fname) return;
  const auto beside = std::filesystem::path(library.dli_fname).parent_path() / "openmpi";
  std::error_code failed;
  if (std::filesystem::is_directory(beside / "share/openmpi", failed))
    setenv("OPAL_PREFIX", beside.c_str(), 1);
}

class MpiWorld : public World {
 public:
  explicit MpiWorld(const MpiOptions& options) : options_(options) {
    LS_CHECK(options.max_count >= 1 && options.max_count <= 2147483647, "max_count ", options.max_count);
    if (options.deadline_s <= 0) take_deadlines();
    int initialized = 0, provided = 0;
    MPI_Initialized(&initialized);
    if (initialized) throw PeerError("MPI is already started in this process; open the world once");
    find_plugins();
    int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (code != MPI_SUCCESS) throw PeerError(str("MPI cannot start: ", mpi_error_text(code)));
    check_thread_level(provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    make_mpi_ops();
    // Ranks exchange sites only if all of them do. The comparison of environments reports ranks that differ.
    int mine = env_flag("LOCKSTEP_VERIFY"), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    checked_ = all != 0;
    progress_ = std::make_shared<MpiProgress>();
    group_ = std::make_shared<MpiGroup>(progress_, MPI_COMM_WORLD, "world", options_, checked_, 0);
    mine = wants_checksums(leaves_memory());
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    checksums_ = all != 0;
    front_ = checksums_ ? checksummed(group_) : group_;
  }
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::shared_ptr<Group> group() override { return front_; }

  // MPI_Comm_split blocks and cannot be cancelled, so a separate thread makes the call and this one enforces
  // the deadline.
  std::shared_ptr<Group> split(int color, int key, const std::string& name) override {
    struct Answer {
      int code = MPI_SUCCESS;
      MPI_Comm comm = MPI_COMM_NULL;
    };
    std::promise<Answer> promise;
    auto answer = promise.get_future();
    std::thread([promise = std::move(promise), color, key]() mutable {
      Answer out;
      out.code = MPI_Comm_split(MPI_COMM_WORLD, color, key, &out.comm);
      promise.set_value(out);
    }).detach();
    double seconds = group_->deadline();
    if (answer.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready) {
      std::string text = str("group \"", name, "\" was not made within ", number_text(seconds), " s on rank ",
                             rank(), " of ", size(),
                             "; a peer is late or has ended; if the start is this slow, raise "
                             "watch.start_deadline or LOCKSTEP_DEADLINE");
      progress_->halt(text);
      throw PeerError(text);
    }
    Answer out = answer.get();
    if (out.code != MPI_SUCCESS)
      throw PeerError(
          str("group \"", name, "\" cannot be made on rank ", rank(), ": ", mpi_error_text(out.code)));
    auto group = std::make_shared<MpiGroup>(progress_, out.comm, name, options_, checked_, ++splits_);
    if (checksums_) return checksummed(std::move(group));
    return group;
  }

  void finish() override {
    if (progress_->halted())
      throw PeerError("the world cannot finish after an error; end the process with World::leave");
    barrier(*group_, "finish");
    progress_->stop("the world has finished");
    MPI_Finalize();
  }

 private:
  MpiOptions options_;
  bool checked_ = false, checksums_ = false;
  uint64_t splits_ = 0;  // equal on all ranks, since all take part in each split
  std::shared_ptr<MpiProgress> progress_;
  std::shared_ptr<MpiGroup> group_;
  std::shared_ptr<Group> front_;  // group_, wrapped in checksums if they are wanted
};
}  // namespace

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return split(std::string(text, length), ',')[0];
}

void check_thread_level(int provided) {
  if (provided < MPI_THREAD_MULTIPLE)
    throw UserError(str("this MPI library offers thread level ", provided,
                        " and Lockstep needs MPI_THREAD_MULTIPLE (", MPI_THREAD_MULTIPLE,
                        "), since one thread drives the collectives while others compute; install an MPI "
                        "that is built with threads"));
}

std::shared_ptr<World> open_mpi_world(const MpiOptions& options) {
  return std::make_shared<MpiWorld>(options);
}

}  // namespace lockstep::distributed
