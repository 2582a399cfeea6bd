// Interprets messages of mpirun and of Open MPI's library in the ranks: how a rank ended, which host was
// lost, which host another cannot reach. The texts are those of Open MPI 4.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/run/cause.h"

namespace lockstep::launcher {

// Open MPI prints its messages between lines of dashes; all other lines come from ranks, ssh or srun.
class MpirunWords {
 public:
  // True when the line is part of such a message or summarizes several: it is not for the user.
  bool take(const std::string& line);
  // Takes a line of a rank's log, in which Open MPI's library may report that the rank's host cannot reach
  // another.
  void take_rank_line(const std::string& line);
  // The results. `ends` has the rank whose failure made mpirun end the others, with its status as from
  // waitpid.
  struct Meaning {
    std::vector<RankEnd> ends;
    std::vector<std::string> lost_hosts;
    struct Unreached {
      std::string from, to, why;  // "10.0.0.3, port 1024: No route to host"
    };
    std::vector<Unreached> unreached;
  };
  Meaning meaning() const;
  // The messages in one line of at most `most` characters; "" without any.
  std::string shown(size_t most) const;

 private:
  bool inside_ = false;
  std::string text_;  // all messages, with runs of white space replaced by a blank
  std::vector<Meaning::Unreached> unreached_;
};

}  // namespace lockstep::launcher
