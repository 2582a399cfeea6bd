// Plugin: a device from outside the tree. A shared library gives one entry that returns its target, and a
// Group where it has links of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/mesh/group.h"

namespace lockstep::compiler {

// Raised with every change of Device, Stream, Target, Kernel, Reductions, LibraryCall, Graph or Group.
#define LOCKSTEP_PLUGIN_VERSION "lockstep backend 13, gcc " __VERSION__

struct Plugin {
  const char* abi = LOCKSTEP_PLUGIN_VERSION;  // compared as text before anything else is touched
  const char* name = "";
  // The target for the device of this rank, the local_rank-th of `local_ranks` on this host. Lives as long as
  // the process. Throws UserError saying why when there is no such device.
  const Target& (*open)(int local_rank, int local_ranks) = nullptr;
  // The ranks of `host` with buffers in the device's memory. Null: collectives are staged through host
  // memory.
  std::shared_ptr<Group> (*group)(Device& device, Group& host) = nullptr;
};

// Opens `path`, once in a process, and asks it for its plugin. The path has a slash; the file and every
// folder on the way are root's or this user's and not writable for others (core/base/trusted_path.h), and the
// file that was checked is the one that is mapped. UserError: it is not so, cannot be opened, has no entry
// `lockstep_backend`, or was built against another version of these headers or by another compiler (both are
// named).
const Plugin& load_plugin(const std::string& path);

}  // namespace lockstep::compiler

// What a backend's library defines:
//   LOCKSTEP_BACKEND { static const lockstep::Plugin plugin{...}; return &plugin; }
#define LOCKSTEP_BACKEND \
  extern "C" __attribute__((visibility("default"))) const lockstep::compiler::Plugin* lockstep_backend()
