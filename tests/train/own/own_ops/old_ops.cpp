// A library of ops of another version.
#include "core/table/op_library.h"

extern "C" __attribute__((visibility("default"))) const lockstep::OpLibrary* lockstep_op_library() {
  static const lockstep::OpLibrary library{.abi = "lockstep ops 0, gcc 1"};
  return &library;
}
