// runs/NAME: one command at a time writes it, and each attempt has a folder of logs.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// Holds the folder's lock. Creates the folder, 0700; what exists keeps its mode, and one that others
// may write is warned of. The lock is inherited by the processes it starts, so that a command that follows a
// killed one waits (up to `patience` seconds) until the last of them has gone. UserError naming the other
// process, or the folder that cannot be written, and `other`, the way to another one.
class RunFolder {
 public:
  explicit RunFolder(std::string path, const std::string& other = "choose --name=OTHER", double patience = 5);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  // Where this object made the folder, and no run began in it (it holds the lock and logs, nothing else):
  // removes it, and says so. False, and nothing done, otherwise.
  bool remove_unused() const;
  // Creates and returns logs/attempt-K for the first K that is free, from 1; 0700.
  std::string new_attempt() const;

 private:
  void warn_of_others() const;
  bool is_its_own() const;
  std::string path_;
  bool made_ = false;  // the folder was not there before
  int fd_ = -1;
};

// logs/attempt-K that new_attempt would create, without creating it.
std::string next_attempt(const std::string& run_dir);

// Replaces a file whole: written beside it (0600, core/base/private_file.h), flushed, renamed. UserError
// naming the file when that fails.
void write_whole(const std::string& path, const std::string& text);

}  // namespace lockstep::launcher
