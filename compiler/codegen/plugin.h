// Plugin: a device from outside the tree. A shared library has one entry point that returns its target and,
// if it has its own links, a Group.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/mesh/group.h"

namespace lockstep::compiler {

// Increase with every change of Device, Stream, Target, Kernel, Reductions, LibraryCall, Graph or Group.
#define LOCKSTEP_PLUGIN_VERSION "lockstep backend 13, gcc " __VERSION__

struct Plugin {
  const char* abi = LOCKSTEP_PLUGIN_VERSION;  // compared as text before any other field is read
  const char* name = "";
  // The target for the device of this rank, the local_rank-th of `local_ranks` on this host. Lives as long as
  // the process. Throws UserError saying why if no such device exists.
  const Target& (*open)(int local_rank, int local_ranks) = nullptr;
  // The ranks of `host`, with buffers in device memory. Null: collectives are staged through host memory.
  std::shared_ptr<Group> (*group)(Device& device, Group& host) = nullptr;
};

// Opens `path`, once per process, and returns its plugin. The path must contain a slash. The file and every
// folder on the path must belong to root or this user and not be writable for others
// (core/files/trusted_path.h). The file that was checked is the file that is mapped.
// UserError: an unsafe path, a file that cannot be opened, no entry point `lockstep_backend`, or a build
// against another version of these headers or by another compiler (both are named).
const Plugin& load_plugin(const std::string& path);

}  // namespace lockstep::compiler

// Defined by a backend's library:
//   LOCKSTEP_BACKEND { static const lockstep::Plugin plugin{...}; return &plugin; }
#define LOCKSTEP_BACKEND \
  extern "C" __attribute__((visibility("default"))) const lockstep::compiler::Plugin* lockstep_backend()
