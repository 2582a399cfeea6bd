// Ops of one's own: rows that a program, or a library that it loads, adds to the op table.
//
//   static const OpId gelu3 = register_op({
//       .name = "mine::gelu3",
//       .scalar = "{0} * ls_sigmoid({0} * 1.702f)",
//       .formula = [](auto x, const Attrs&) { return x[0] / (1 + std::exp(-1.702 * x[0])); },
//       .gradient = ...,
//       .samples = {{.in = {{DType::f32, {3, 5}}}}}});
//   Tensor y = apply1(gelu3, {x});
//
// An op is pure: its outputs follow from its inputs and attributes alone, with the same bits in every run and
// on every rank. check_op (compiler/check_op.h) tries it on its samples.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ops/apply.h"
#include "core/ops/definition.h"

namespace lockstep {

// Adds a row, for the life of the process, and returns its handle. Safe from any thread, before a step that
// uses it is traced; every rank registers the same ops. The same definition once more is nothing new.
// UserError "[register_op] NAME at file:line: ..." when a piece is missing, does not fit or fails on a
// sample, and when another definition has this name.
OpId register_op(OpDefinition definition, Here at = Here::current());

// Names of all registered ops with a hash of the definition: what is text in it, what expansion and gradient
// trace on the samples, and the bits that a host function and a formula give on them.
std::vector<std::pair<std::string, std::string>> registered_ops();
std::string definition_hash(OpId op);  // "" of a built-in op

// What the compiler knows of a registered row beyond the table's fields.
enum class OwnWork { element, row, all };  // of one call of source
struct OwnCode {
  OpDefinition definition;
  OwnWork work = OwnWork::element;
  bool on_host() const { return !definition.cpp.empty() || definition.host; }
};

}  // namespace lockstep
