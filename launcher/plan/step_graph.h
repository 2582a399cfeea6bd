// StepGraph: the picture of a rank's step, and a sentence about it.
#pragma once

#include <string>

#include "core/base/json.h"
#include "launcher/machine/roofline.h"
#include "launcher/trainer/paper_step.h"

namespace lockstep::launcher {

struct StepGraph {
  std::string svg;
  std::string said;  // "a step of rank 0, predicted by the roofline cpu: 1.2 ms, of which ..."
};
struct DrawnStep {
  const std::string& name;  // of the run, or the program
  const Mesh& words;
  const PaperStep& step;
  int64_t rank;
  const std::string& precision;
};
// `program`: of that rank. UserError for the reference backend, which has no calls to predict.
StepGraph draw_step(const DrawnStep& drawn, const compiler::StepProgram& program, const Roofline& roofline);

Json to_json(const StepGraph& graph);
StepGraph step_graph(const std::string& json);

// Replaces the file. UserError when it cannot be written.
void write_graph(const std::string& path, const StepGraph& graph);

}  // namespace lockstep::launcher
