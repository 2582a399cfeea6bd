// HeldFolder: locks a folder that one command at a time may write, and names the holder.
#pragma once

#include <string>

namespace lockstep::launcher {

// Holds the lock of a folder (flock on its file `lock`, which the kernel releases with the last holder).
// Creates the folder, 0700; an existing one keeps its mode, with a warning if others may write it. Child
// processes inherit the lock, so a command that follows a killed one waits (up to `patience` seconds) until
// the last of them has ended.
// UserError naming the holder and its start time; for a folder that cannot be written or locked, or is
// behind another user's link; for a foreign file `lock`, which is left unchanged.
class HeldFolder {
 public:
  struct Words {
    std::string cannot;         // "cannot write the run's folder runs/a": how a failure is reported
    std::string other;          // "choose --name=OTHER": the way out
    bool without_lock = false;  // if the file system has no locks: warn and continue
  };
  // `run`: the absolute path of the run that takes it.
  HeldFolder(std::string path, const std::string& run, const Words& words, double patience);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  // Writes into the lock file which process holds the folder, and for which run.
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

// "cannot write PATH: ", why (an errno of core/files/private_file.h), and the way out where it is known.
std::string not_written_text(const std::string& path, int reason);
// The run whose logs a folder has, by its lock; "" without a lock.
std::string run_of_held(const std::string& folder);

}  // namespace lockstep::launcher
