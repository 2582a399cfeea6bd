// The one header that a user's program includes.
#pragma once

#include "compiler/compile/compile.h"
#include "compiler/compile/forward.h"
#include "compiler/compile/steps_by_shape.h"
#include "compiler/laws/check_op.h"
#include "compiler/register_pass.h"
#include "core/base/philox.h"
#include "core/functions/functions.h"
#include "core/functions/matrices/linalg.h"
#include "core/models/families.h"
#include "core/models/gpt.h"
#include "core/models/llama.h"
#include "core/nn/assign.h"
#include "core/nn/attention.h"
#include "core/nn/convolution.h"
#include "core/nn/layers.h"
#include "core/nn/lora.h"
#include "core/nn/metric.h"
#include "core/nn/normalization.h"
#include "core/nn/recurrent.h"
#include "core/nn/state.h"
#include "core/ops/precision.h"
#include "core/optim/all.h"
#include "core/optim/average.h"
#include "core/optim/clip.h"
#include "core/optim/plateau.h"
#include "core/optim/schedule.h"
#include "core/table/op_library.h"
#include "core/table/register.h"
#include "core/tasks/task.h"
#include "launcher/api/program.h"
#include "launcher/api/session.h"
#include "launcher/api/train.h"
#include "launcher/api/train_options.h"

// What a user's program names of the wings: lockstep::compile() and what goes into it and comes out.
namespace lockstep {

using compiler::Backend;
using compiler::BatchField;
using compiler::BatchShape;
using compiler::check_op;
using compiler::compile;
using compiler::CompileOptions;
using compiler::Forward;
using compiler::GatherWhen;
using compiler::OpCheck;
using compiler::plan_step;
using compiler::register_pass;
using compiler::Step;
using compiler::StepFunction;
using compiler::StepInput;
using compiler::StepPlan;
using compiler::StepResult;
using compiler::StepsByShape;

}  // namespace lockstep
