// World: all ranks of a run, however they were launched.
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
  // Collective over the world: ranks that give the same color form a group, ordered by (key, world rank).
  // Throws PeerError.
  virtual std::shared_ptr<Group> split(int color, int key, const std::string& name) = 0;
  // The normal end, collective: all ranks meet, then the machinery is taken down. Groups must not be used
  // afterwards. Without it, the destructor leaves the world as after an error: nothing is waited for.
  virtual void finish() = 0;
  // The end after an error: flushes standard streams and ends the process at once with `exit_code`, without
  // waiting for any peer. After a PeerError this is the only safe way out, since a collective that is under
  // way cannot be cancelled.
  [[noreturn]] static void leave(int exit_code) {
    std::cout.flush();
    std::cerr.flush();
    std::fflush(nullptr);
    _exit(exit_code);
  }
};

}  // namespace lockstep::distributed
