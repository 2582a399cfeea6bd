// ProgramWriter: appends instructions to a program, and allocates their regions and flights.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

class ProgramWriter {
 public:
  explicit ProgramWriter(StepProgram& program) : program_(program), to_(&program.instrs) {}

  Span region(Region::Kind kind, std::string name, int64_t bytes) {
    program_.regions.push_back({kind, std::move(name), bytes});
    return program_.whole(static_cast<int>(program_.regions.size()) - 1);
  }
  // Grows a region that several users fill in turns to the size of the largest of them.
  void fit(Span& span, int64_t bytes) {
    int64_t& held = program_.regions[span.region].bytes;
    span.bytes = held = std::max(held, bytes);
  }

  void into(std::vector<Instr>& list) { to_ = &list; }
  void set_micro_batch(int64_t micro_batch) { micro_batch_ = static_cast<int>(micro_batch); }
  template <class What>
  void put(What what, const SourceLine& at = {}) {
    to_->push_back({std::move(what), micro_batch_, 0, at});
  }
  // On a mesh with one data dim, collectives over all data dims use that dim.
  void name_data_dims(std::string name) { data_ = std::move(name); }
  int start(StartCollective what, const SourceLine& at = {}) {
    if (what.along == kDataDims) what.along = data_;
    const int flight = what.flight = program_.flights++;
    put(std::move(what), at);
    return flight;
  }
  void wait(int flight, const SourceLine& at = {}) { put(Wait{flight}, at); }
  // Waits once for a flight, which may be none.
  void finish(int& flight) {
    if (flight >= 0) wait(flight);
    flight = -1;
  }
  StepProgram& program() { return program_; }

 private:
  StepProgram& program_;
  std::vector<Instr>* to_;
  int micro_batch_ = -1;
  std::string data_{kDataDims};
};

}  // namespace lockstep::compiler
