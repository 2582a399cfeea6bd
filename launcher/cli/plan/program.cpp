// trainrun plan of a program: starts the program to trace its step; it ends where training would begin.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/temporary_folder.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/program/target.h"
#include "launcher/cli/program/words.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

namespace {
// Runs the program with its output on stderr, because stdout is for the plan. Returns its exit code, or 128 +
// signal. It ends with this process.
int run_program(const std::vector<std::string>& command, const std::string& request) {
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw UserError(str("cannot start ", command[0], ": ", std::strerror(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setenv("LOCKSTEP_PLAN", request.c_str(), 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

ProgramAnswer ask_program(ProgramPlanArguments arguments) {
  const TemporaryFolder folder("plan");
  PlanRequest& request = arguments.request;
  const std::string& path = arguments.program[0];
  const BeforeProgram before = before_program(arguments.rest, path);
  request.name = before.name.empty() ? fs::path(path).stem().string() : before.name;
  request.answer = folder.path() + "/plan";
  ProgramAnswer out;
  out.code = run_program(program_command(arguments.program, before.words, arguments.self), text(request));
  std::string why;
  if (fs::exists(request.answer)) read_plain(request.answer, out.text, why);
  if (out.code == kExitOk && out.text.empty())
    throw UserError(str("plan: ", path,
                        " ended without compiling a step: a plan is of the step that train() or compile() is "
                        "given, after a Session (ls.Session in Python)"));
  return out;
}

int plan_program(const ProgramPlanArguments& arguments, std::ostream& out) {
  if (arguments.budgets)
    throw UserError(
        "plan: --budgets plans a config under several values of compile.memory_budget, and a program has "
        "none; leave --budgets out, or give a config");
  out.flush();
  const ProgramAnswer answer = ask_program(arguments);
  out << answer.text;
  return answer.code;
}

}  // namespace lockstep::launcher::cli
