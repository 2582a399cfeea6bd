// Every LOCKSTEP_* variable, in one table. The only place below the launcher that reads the environment.
#pragma once

#include <span>
#include <string>

namespace lockstep {

struct EnvVar {
  const char* name;
  const char* fallback;  // value when unset
  const char* help;
};

// The table that `trainrun env` prints.
std::span<const EnvVar> env_vars();
// Value of a variable of the table (its fallback when unset). Throws InternalError for a name that is not in
// the table.
std::string env(const std::string& name);
// True for 1, on, true and yes; false for 0, off, false, no and "". Throws UserError for any other word.
bool env_flag(const std::string& name);

}  // namespace lockstep
