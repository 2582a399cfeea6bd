// Leaves no process behind: this process (a subreaper) adopts the orphans of the processes it started, and
// ends them.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher {

class Leftovers {
 public:
  // Makes this process the subreaper of its descendants; existing children are not touched.
  Leftovers();
  void known_child(int pid) { spared_.push_back(pid); }  // other code waits for it
  // Kills and reaps every other child and their orphans; takes at most 2 s.
  void end_all(int spared = 0);

 private:
  std::vector<int> spared_;
};

// Children of this process now.
std::vector<int> children_of_this_process();

}  // namespace lockstep::launcher
