// What mpirun says on stderr, read for what it means: which rank ended how, which host was lost. The words
// are those of Open MPI 4.
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
  // What the messages say. `ends` has the rank that mpirun ended the others for, as waitpid would have told
  // it.
  struct Meaning {
    std::vector<RankEnd> ends;
    std::vector<std::string> lost_hosts;
  };
  Meaning meaning() const;
  // The messages in one line of at most `most` characters; "" without any.
  std::string shown(size_t most) const;

 private:
  bool inside_ = false;
  std::string text_;  // of all messages, white space made one blank
};

}  // namespace lockstep::launcher
