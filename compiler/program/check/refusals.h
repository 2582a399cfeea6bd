// Refusals: faults of an instruction of a step program, in words.
#pragma once

#include <string>

#include "compiler/program/show/print.h"
#include "compiler/program/words/program.h"
#include "core/base/error.h"

namespace lockstep::compiler {

class Refusals {
 protected:
  explicit Refusals(const StepProgram& program) : program_(program) {}

  [[noreturn]] void fail(const Instr& instr, const std::string& what) const {
    throw InternalError(str("step program of rank ", program_.rank, ": ", what, ": ", text(program_, instr),
                            instr.micro_batch >= 0 ? str(", micro-batch ", instr.micro_batch) : "",
                            instr.at.file.empty() ? "" : str(", at ", instr.at.text())));
  }
  [[noreturn]] void fail(const std::string& what) const { fail(*now_, what); }
  void refuse(const std::string& wrong) const {
    if (!wrong.empty()) fail(wrong);
  }
  [[noreturn]] void lacks(const char* what, int region) const {
    throw InternalError(
        str("step program of rank ", program_.rank, ": nothing ", what, program_.regions[region].name));
  }
  std::string stretch(const Span& span) const {
    return str(program_.regions[span.region].name, ", bytes ", span.offset, " to ", span.offset + span.bytes,
               ",");
  }
  void inside(const Span& span) const {
    const bool known = span.region >= 0 && span.region < static_cast<int>(program_.regions.size());
    if (!known || span.offset < 0 || span.offset + span.bytes > program_.regions[span.region].bytes)
      fail(str("bytes ", span.offset, " to ", span.offset + span.bytes, " are outside region ",
               known ? program_.regions[span.region].name : std::to_string(span.region)));
  }

  const StepProgram& program_;
  const Instr* now_ = nullptr;  // the instruction under examination
};

}  // namespace lockstep::compiler
