// trainrun show: prints the resolved config or the reference of its keys, or draws a step.
#include <ostream>

#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/plan/planned_run.h"
#include "launcher/config/run_names.h"
#include "launcher/plan/step_graph.h"

namespace lockstep::launcher::cli {

int show(const RunConfig& config, std::ostream& out) {
  out << config_text(config);
  return kExitOk;
}

int show_reference(std::ostream& out) {
  out << config_reference();
  return kExitOk;
}

int show_schema(std::ostream& out) {
  out << config_schema();
  return kExitOk;
}

namespace {
void check_path(const std::string& path) {
  refuse_no_local_path(path, "--graph");
  if (!path.ends_with(".svg"))
    throw UserError(
        str("--graph is \"", path,
            "\", which does not end in .svg; it names the picture that is written, as in: trainrun "
            "show --graph step.svg configs/quickstart.json"));
}

int write(const std::string& path, const StepGraph& graph, std::ostream& out) {
  write_graph(path, graph);
  out << path << ": " << graph.said << "\n";
  return kExitOk;
}
}  // namespace

int show_graph(const GraphArguments& arguments, std::ostream& out) {
  check_path(arguments.path);
  const PlannedRun planned(arguments.config, arguments.nproc, arguments.roofline);
  const compiler::StepProgram program = planned.program_of(arguments.rank);
  if (!planned.roofline()) throw UserError(str("show --graph: ", planned.no_roofline()));
  const PaperRun& run = planned.run();
  const DrawnStep drawn{planned.config().name, run.words, run.step, arguments.rank,
                        planned.config().train.precision};
  return write(arguments.path, draw_step(drawn, program, *planned.roofline()), out);
}

int show_program_graph(const ProgramPlanArguments& arguments, const std::string& path, std::ostream& out) {
  check_path(path);
  const ProgramAnswer answer = ask_program(arguments);
  if (answer.code != kExitOk) return answer.code;
  return write(path, step_graph(answer.text), out);
}

}  // namespace lockstep::launcher::cli
