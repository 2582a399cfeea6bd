// A folder that one command at a time writes: its lock, and whose it is.
#pragma once

#include <string>

namespace lockstep::launcher {

// Holds the lock of a folder (flock on its file `lock`: it is released with its last holder, however that
// ends). Creates the folder, 0700; what exists keeps its mode, and one that others may write is warned of.
// The lock is inherited by the processes it starts, so that a command that follows a killed one waits (up to
// `patience` seconds) until the last of them has gone.
// UserError naming the holder and since when; the folder that cannot be written or locked, or is the link of
// another user; a file `lock` that is none of ours, which is left as it is.
class HeldFolder {
 public:
  struct Words {
    std::string cannot;         // "cannot write the run's folder runs/a": what a failure is told by
    std::string other;          // "choose --name=OTHER": the way out
    bool without_lock = false;  // where the file system has no locks: warn, and go on
  };
  // `run`: the absolute path of the run that takes it.
  HeldFolder(std::string path, const std::string& run, const Words& words, double patience);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  // The file says from here on which process holds the folder, and for which run.
  void take() const;
  const std::string& path() const { return path_; }
  bool made() const { return made_; }            // the folder was not there before
  bool made_lock() const { return made_lock_; }  // nor was its lock
  // Whether the path still leads to it; false where it was moved or removed.
  bool is_its_own() const;
  // The run that held it last, before this object; "" where none did.
  const std::string& run_before() const { return run_before_; }

 private:
  void open(const Words& words);
  void warn_of_others() const;
  std::string path_, run_, run_before_;
  bool made_ = false, made_lock_ = false;
  int fd_ = -1;
};

// The run whose logs a folder holds, by its lock; "" where it has none.
std::string run_of_held(const std::string& folder);

}  // namespace lockstep::launcher
