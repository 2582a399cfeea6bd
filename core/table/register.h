// User-defined ops: a program, or a library that it loads, adds rows to the op table.
//
//   static const OpId gelu3 = register_op({
//       .name = "mine::gelu3",
//       .scalar = "{0} * ls_sigmoid({0} * 1.702f)",
//       .formula = [](auto x, const Attrs&) { return x[0] / (1 + std::exp(-1.702 * x[0])); },
//       .gradient = ...,
//       .samples = {{.in = {{DType::f32, {3, 5}}}}}});
//   Tensor y = apply1(gelu3, {x});
//
// An op must be pure: its outputs depend only on its inputs and attributes, with the same bits in every run
// and on every rank. check_op (compiler/check_op.h) tests it on its samples.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ops/apply.h"
#include "core/table/definition.h"

namespace lockstep {

// Adds a row for the life of the process and returns its handle. Thread-safe; call it before a step that uses
// the op is traced, with the same ops on every rank. Registering an equal definition again has no effect.
// Throws UserError "[register_op] NAME at file:line: ..." if a part is missing, does not fit or fails on a
// sample, or if another definition has this name.
OpId register_op(OpDefinition definition, Here at = Here::current());

// Names of all registered ops with a hash of the definition. The hash covers its texts, the traces of
// expansion and gradient on the samples, and the bits of a host function and a formula on them.
std::vector<std::pair<std::string, std::string>> registered_ops();
std::string definition_hash(OpId op);  // "" of a built-in op

// The compiler's data of a registered row in addition to the table's fields.
enum class OwnWork { element, row, all };  // of one call of source
struct OwnCode {
  OpDefinition definition;
  OwnWork work = OwnWork::element;
  bool on_host() const { return !definition.cpp.empty() || definition.host; }
};

}  // namespace lockstep
