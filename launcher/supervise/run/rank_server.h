// RankServer: the PMIx server in this process that a host's ranks use when MPI starts. It listens only on
// 127.0.0.1.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::launcher {

// Registers the ranks of one attempt with the server during this object's lifetime. Ranks without MPI never
// contact it.
class RankServer {
 public:
  // UserError when PMIx cannot start (no file descriptors left, no folder to write).
  explicit RankServer(int64_t nproc);
  ~RankServer();
  RankServer(const RankServer&) = delete;
  RankServer& operator=(const RankServer&) = delete;

  // The variables that a rank needs to reach the server and to use only shared memory.
  std::vector<std::pair<std::string, std::string>> variables(int64_t rank) const;
  // A rank joins in MPI_Init and has left after MPI_Finalize.
  bool joined(int64_t rank) const { return ranks_[rank].joined; }
  bool left(int64_t rank) const { return ranks_[rank].left; }

  // Messages since the last call that Open MPI in a rank sends to the launcher instead of stderr: why
  // MPI_Init failed, the argument of MPI_Abort.
  std::string words(int64_t rank);

  struct Rank {
    std::atomic<bool> joined{false}, left{false};
  };

 private:
  friend class SaidToServer;
  std::string space_;   // the PMIx namespace of these ranks: 128 random bits, a secret needed to join
  std::string folder_;  // for their shared memory
  std::vector<Rank> ranks_;
  std::mutex mutex_;  // of words_
  std::vector<std::string> words_;
};

}  // namespace lockstep::launcher
