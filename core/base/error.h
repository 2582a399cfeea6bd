// Three kinds of error, by who has to act: the user (UserError), the environment (PeerError) or Lockstep's
// developers (InternalError). Each kind has its exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "core/base/text.h"

namespace lockstep {

// Exit codes of trainrun and its workers (documented in README).
inline constexpr int kExitOk = 0;
inline constexpr int kExitUser = 2;       // UserError: fix the input; never restarted
inline constexpr int kExitInternal = 70;  // InternalError: a defect of Lockstep
inline constexpr int kExitPeer = 75;      // PeerError: the world changed; restartable
inline constexpr int kExitStopped = 80;   // SIGTERM / SIGINT: step finished, checkpoint saved

// Base of the three. what() is the whole message, ready to print.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual const char* kind() const = 0;
  virtual int exit_code() const = 0;
};

// The user's input is wrong: config, model, data, checkpoint. The message names the thing, both values, the
// line and the way out.
class UserError : public Error {
 public:
  using Error::Error;
  const char* kind() const override { return "UserError"; }
  int exit_code() const override { return kExitUser; }
};

// A peer died, hung or disagrees. The run can be restarted from its last checkpoint.
class PeerError : public Error {
 public:
  using Error::Error;
  const char* kind() const override { return "PeerError"; }
  int exit_code() const override { return kExitPeer; }
};

// An internal condition does not hold: a defect of Lockstep.
class InternalError : public Error {
 public:
  using Error::Error;
  const char* kind() const override { return "InternalError"; }
  int exit_code() const override { return kExitInternal; }
};

}  // namespace lockstep

// LS_CHECK(condition, parts...): throws InternalError with file, line and condition; the text is built only
// on failure.
#define LS_CHECK(condition, ...)                                                                     \
  do {                                                                                               \
    if (!(condition)) [[unlikely]]                                                                   \
      throw ::lockstep::InternalError(::lockstep::str(                                               \
          __FILE__, ":", __LINE__, ": check failed: " #condition __VA_OPT__(, ": ", ) __VA_ARGS__)); \
  } while (0)
