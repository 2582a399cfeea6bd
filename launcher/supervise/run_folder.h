// runs/NAME: one command at a time writes it, and each attempt has a folder of logs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  // The logs lie in DIR/NAME of this run, and PATH/logs is a link to it; "": in PATH/logs. UserError where
  // the run has its logs elsewhere already.
  void keep_logs_in(const std::string& dir) const;
  // Creates and returns logs/attempt-K, 0700; K is one more than the highest there, from 1. Removes the
  // oldest so that `keep` are left, where it is not 0.
  std::string new_attempt(int64_t keep = 0) const;

 private:
  void warn_of_others() const;
  bool is_its_own() const;
  std::string path_;
  bool made_ = false;  // the folder was not there before
  int fd_ = -1;
};

// The K of RUN_DIR/logs/attempt-K, ascending.
std::vector<int64_t> attempts_there(const std::string& run_dir);
// RUN_DIR/logs/attempt-K.
std::string attempt_folder(const std::string& run_dir, int64_t k);
// logs/attempt-K that new_attempt would create, without creating it.
std::string next_attempt(const std::string& run_dir);

// Replaces a file whole: written beside it (0600, core/base/private_file.h), flushed, renamed. UserError
// naming the file when that fails.
void write_whole(const std::string& path, const std::string& text);

}  // namespace lockstep::launcher
