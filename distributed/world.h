// World: all ranks of a run, independent of how they were launched.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "core/mesh/array.h"

namespace lockstep::distributed {

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::shared_ptr<Group> group() = 0;  // all ranks, named "world"
  // Collective over the world: ranks with the same color form a group, ordered by (key, world rank). Throws
  // PeerError.
  virtual std::shared_ptr<Group> split(int color, int key, const std::string& name) = 0;
  // The normal end, collective: all ranks synchronise, then the world is shut down. Do not use groups
  // afterwards. Without it, the destructor acts as after an error and waits for nothing.
  virtual void finish() = 0;
  // The end after an error: flushes standard streams and ends the process at once with `exit_code`, without
  // waiting for any peer. After a PeerError this is the only safe way out, since a started collective cannot
  // be cancelled.
  [[noreturn]] static void leave(int exit_code) {
    std::cout.flush();
    std::cerr.flush();
    std::fflush(nullptr);
    _exit(exit_code);
  }
};

}  // namespace lockstep::distributed
