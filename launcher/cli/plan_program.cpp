// trainrun plan of a program: it is started to trace its step, and ends where training would begin.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>

#include "core/base/error.h"
#include "core/base/plain_file.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/program_target.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

namespace {
// A folder of this command alone, removed with it.
class AnswerFolder {
 public:
  AnswerFolder() {
    std::string name = (fs::temp_directory_path() / "lockstep-plan-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw UserError(str("cannot make a folder in ", fs::temp_directory_path().string(), ": ",
                          std::strerror(errno), "; TMPDIR names another place"));
    path_ = name;
  }
  AnswerFolder(const AnswerFolder&) = delete;
  AnswerFolder& operator=(const AnswerFolder&) = delete;
  ~AnswerFolder() {
    std::error_code gone;
    fs::remove_all(path_, gone);
  }
  std::string file() const { return path_ + "/plan"; }

 private:
  std::string path_;
};

// What the program prints goes to stderr: stdout is the plan's. Its exit code, or 128 + signal.
int run_program(const std::vector<std::string>& command, const std::string& request) {
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw UserError(str("cannot start ", command[0], ": ", std::strerror(errno)));
  if (child == 0) {
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

int plan_program(ProgramPlanArguments arguments, std::ostream& out) {
  const AnswerFolder answer;
  PlanRequest& request = arguments.request;
  request.name = fs::path(arguments.target).stem();
  request.answer = answer.file();
  std::vector<std::string> command = program_command(arguments.target, arguments.self);
  command.insert(command.end(), arguments.rest.begin(), arguments.rest.end());
  out.flush();
  const int code = run_program(command, text(request));
  std::string plan, why;
  if (fs::exists(request.answer)) read_plain(request.answer, plan, why);
  out << plan;
  if (code == kExitOk && plan.empty())
    throw UserError(str("plan: ", arguments.target,
                        " ended without compiling a step: a plan is of the step that train() or compile() is "
                        "given, after a Session (ls.Session in Python)"));
  return code;
}

}  // namespace lockstep::launcher::cli
