// Distinguishes programs from configs, and finds the interpreter of a Python program.
#include "launcher/cli/program/target.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

bool is_python_program(const std::string& path) {
  std::error_code failed;
  return path.ends_with(".py") && fs::is_regular_file(path, failed);
}

std::vector<std::string> python_command(const std::string& path, const std::string& self) {
  if (const std::string& named = lockstep::env("LOCKSTEP_PYTHON"); !named.empty()) {
    if (access(named.c_str(), X_OK) != 0)
      throw UserError(str("LOCKSTEP_PYTHON is ", named, ", which is no program that can be started"));
    return {named, "-u", path};
  }
  std::vector<std::string> places = {fs::path(self).parent_path().string()};
  if (const char* own = std::getenv("VIRTUAL_ENV")) places.push_back(std::string(own) + "/bin");
  const char* path_variable = std::getenv("PATH");
  for (const auto& folder : split(path_variable ? path_variable : "", ':'))
    if (!folder.empty()) places.push_back(folder);
  for (const auto& folder : places)
    if (std::string found = folder + "/python3"; access(found.c_str(), X_OK) == 0) return {found, "-u", path};
  throw UserError(str(
      path,
      " is a Python program, and there is no python3: not next to trainrun, not in VIRTUAL_ENV, not on PATH; "
      "LOCKSTEP_PYTHON names one"));
}

std::vector<std::string> program_command(const std::vector<std::string>& program,
                                         const std::vector<std::string>& first, const std::string& self) {
  const std::string& path = program[0];
  auto out = is_python_program(path) ? python_command(path, self) : std::vector<std::string>{path};
  out.insert(out.end(), first.begin(), first.end());
  out.insert(out.end(), program.begin() + 1, program.end());
  return out;
}

}  // namespace lockstep::launcher::cli
