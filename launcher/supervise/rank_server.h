// What the ranks of one host ask their launcher when MPI starts: a PMIx server within this process, which
// listens on 127.0.0.1 alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::launcher {

// The ranks of one attempt, known to the server as long as this object lives. Ranks that do not use MPI never
// ask.
class RankServer {
 public:
  // UserError when PMIx cannot start (no file descriptors left, no folder to write).
  explicit RankServer(int64_t nproc);
  ~RankServer();
  RankServer(const RankServer&) = delete;
  RankServer& operator=(const RankServer&) = delete;

  // What a rank must find in its environment to reach the server, and to use shared memory alone.
  std::vector<std::pair<std::string, std::string>> variables(int64_t rank) const;
  // A rank joins in MPI_Init and has left after MPI_Finalize.
  bool joined(int64_t rank) const { return ranks_[rank].joined; }
  bool left(int64_t rank) const { return ranks_[rank].left; }

  // What Open MPI says in a rank to its launcher instead of its stderr since the last call: why MPI_Init
  // failed, what MPI_Abort was given.
  std::string words(int64_t rank);

  struct Rank {
    std::atomic<bool> joined{false}, left{false};
  };

 private:
  friend class SaidToServer;
  std::string space_;   // PMIx's name of these ranks: 128 random bits, which whoever wants to join must know
  std::string folder_;  // for their shared memory
  std::vector<Rank> ranks_;
  std::mutex mutex_;  // of words_
  std::vector<std::string> words_;
};

}  // namespace lockstep::launcher
