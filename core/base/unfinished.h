// Unfinished: what a command is making, undone where it ends before all is whole: by an exception, or by a
// signal.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

class Unfinished {
 public:
  // entry: a file, or a folder if nothing is in it; tree: a folder and all that is in it.
  enum class Kind { entry, tree };
  Unfinished() = default;
  Unfinished(Kind kind, const std::string& what) { add(kind, what); }
  ~Unfinished();  // undoes what was added, the last one first
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  // Before it is made. The name that a file is written under is one of its own (draft_of).
  void add(Kind kind, const std::string& what);
  // A process, which is asked to end, then killed.
  void add_process(int pid);
  void keep();  // all is whole

 private:
  std::vector<int> numbers_;  // in the list of the process
};

// Undoes all that is unfinished in this process, the last one first, and lets nobody begin more: before the
// process ends. It may take seconds where a process does not end. Not for a signal handler that interrupts a
// thread which works.
void undo_unfinished();

}  // namespace lockstep
