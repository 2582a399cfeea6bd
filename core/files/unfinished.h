// Unfinished removes the files that a command was writing, and ends its processes, if an exception or a
// signal stops the command before it completes.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

class Unfinished {
 public:
  // entry: a file or an empty folder; tree: a folder with its content.
  enum class Kind { entry, tree };
  Unfinished() = default;
  Unfinished(Kind kind, const std::string& what) { add(kind, what); }
  ~Unfinished();  // undoes all added items, the last one first
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  // Call before the item is created. A file that is written as a draft has a name of its own (draft_of).
  void add(Kind kind, const std::string& what);
  // A process, which is asked to end and then killed.
  void add_process(int pid);
  void keep();  // everything is complete: undoes nothing any more

 private:
  std::vector<int> numbers_;  // in the list of the process
};

// Undoes everything unfinished in this process, the last item first, and blocks further add() calls; for use
// before the process ends. It may take seconds if a child process does not end. Do not call it from a signal
// handler that interrupts a working thread.
void undo_unfinished();

}  // namespace lockstep
