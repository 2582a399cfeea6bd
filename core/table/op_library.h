// Loads user-defined ops from a shared library.
#pragma once

#include <string>

#include "core/table/register.h"

namespace lockstep {

#define LOCKSTEP_OP_LIBRARY_VERSION "lockstep ops 1, gcc " __VERSION__

struct OpLibrary {
  const char* abi = LOCKSTEP_OP_LIBRARY_VERSION;  // compared as text before anything else is touched
  const void* (*table)() = op_table_address;      // the op table that the library's code uses
  void (*add)() = nullptr;
};

// Opens the library at `path`, once per process, and lets it register its ops (passes, models, tasks). The
// path must be trusted, as for a device plugin (core/files/trusted_path.h): it has a slash, and the file and
// every folder on the way belong to root or this user and are not writable for others. Every rank loads the
// same libraries: the ops' definitions are compared before a step is compiled. The library's calls must reach
// this program's op table: link the library as a module, and the program with exported symbols (CMake:
// ENABLE_EXPORTS; else -rdynamic). Throws UserError if the library is not trusted, cannot be opened, has no
// entry, was built against other headers or by another compiler, or has its own op table. Also throws the
// errors of register_op.
void load_ops(const std::string& path);
// Whether this process has opened the library, by any path.
bool has_loaded_ops(const std::string& path);

}  // namespace lockstep

// The library defines one entry:
//   LOCKSTEP_OP_LIBRARY { lockstep::register_op({.name = "mine::gelu3", ...}); }
#define LOCKSTEP_OP_LIBRARY                                                                            \
  static void lockstep_add_ops();                                                                      \
  extern "C" __attribute__((visibility("default"))) const lockstep::OpLibrary* lockstep_op_library() { \
    static const lockstep::OpLibrary library{.add = lockstep_add_ops};                                 \
    return &library;                                                                                   \
  }                                                                                                    \
  static void lockstep_add_ops()
