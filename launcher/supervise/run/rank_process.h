// RankProcess: one rank's process: its start, its output on stdout, stderr and in its log, and its end.
#pragma once

#include <boost/process/child.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/pipe.hpp>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/launch/console.h"

namespace lockstep::launcher {

class RankProcess {
 public:
  // Starts `command` as rank `rank`, in its own process group; the kernel ends it when this process dies.
  // `more`: variables only for this rank. UserError when the program cannot be started.
  RankProcess(const LaunchCommand& command, int64_t rank,
              const std::vector<std::pair<std::string, std::string>>& more, const std::string& log_file);

  int pid() const { return pid_; }
  bool ended() const { return ended_; }
  int wait_status() const { return child_.native_exit_code(); }  // for an ended rank, as from waitpid
  bool look();                                                   // true once, when the rank is found ended
  void kill_group();                                             // SIGKILL to the rank and what it started
  int out_fd() const { return out_.native_source(); }
  int err_fd() const { return err_.native_source(); }

  // Output since the last call. `rest`: also text without a final newline.
  struct Words {
    std::vector<LineCutter::Piece> out, err, log;
  };
  Words words(bool rest = false);

 private:
  boost::process::child child_;
  boost::process::pipe out_, err_;
  int pid_ = 0;
  bool ended_ = false;
  LogTail log_;
  LineCutter out_cutter_, err_cutter_, log_cutter_;
};

}  // namespace lockstep::launcher
