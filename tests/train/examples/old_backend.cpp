// A backend that was built against other headers.
#include "lockstep_backend.h"

LOCKSTEP_BACKEND {
  static const lockstep::Plugin plugin{"lockstep backend 0, gcc 1.0", "old", nullptr, nullptr};
  return &plugin;
}
