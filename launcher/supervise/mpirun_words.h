// What mpirun and Open MPI's library in the ranks say, read for what it means: which rank ended how, which
// host was lost, or is not reached by another. The words are those of Open MPI 4.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/cause.h"

namespace lockstep::launcher {

// Open MPI sets what it has to say between lines of dashes; all other lines are of ranks, of ssh and of srun.
class MpirunWords {
 public:
  // True when the line is part of such a message, or stands for several: it is not for the user.
  bool take(const std::string& line);
  // A line of a rank's log: one of Open MPI's library says that the rank's host does not reach another.
  void take_rank_line(const std::string& line);
  // What the messages say. `ends` has the rank that mpirun ended the others for, as waitpid would have told
  // it.
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
  std::string text_;  // of all messages, white space made one blank
  std::vector<Meaning::Unreached> unreached_;
};

}  // namespace lockstep::launcher
