// No process is left behind: what the started processes leave is adopted by this one (a subreaper) and ended.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher {

class Leftovers {
 public:
  // Makes this process the subreaper of its descendants; children that exist already are not touched.
  Leftovers();
  void known_child(int pid) { spared_.push_back(pid); }  // waited for by somebody else
  // Kills and reaps every other child, and the children they leave in turn; at most 2 s.
  void end_all(int spared = 0);

 private:
  std::vector<int> spared_;
};

// Children of this process now.
std::vector<int> children_of_this_process();

}  // namespace lockstep::launcher
