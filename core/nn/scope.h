// Scope: a path in the state. It replaces base classes and registration: `at / "norm1"` is the key in the
// checkpoint, the subject of a placement rule and the name in an error.
#pragma once

#include <string>
#include <string_view>

#include "core/nn/parameter.h"

namespace lockstep {

class State;

class Scope {
 public:
  Scope(State& state, std::string path) : state_(&state), path_(std::move(path)) {}
  // "blocks" / "attn" is "blocks.attn". Throws UserError for a part that is not a name.
  Scope operator/(std::string_view part) const;
  Scope operator/(int64_t index) const;              // "blocks" / 3 is "blocks.3"
  const std::string& path() const { return path_; }  // "" at the root
  State& state() const { return *state_; }

  // Each records the tensor `path.name` in the state; see State::record for what it throws.
  Parameter parameter(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  // A parameter that is not trained.
  Parameter frozen(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  // A parameter [out, in] that its layer reads only by projected() (core/nn/layers.h), so that State::lora
  // can add an adapter to it.
  Parameter projection(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  // A trained table [rows, width] with sparse gradients. A step reads rows of it only by embedding(),
  // embedding_bag() or take(), and replaces only these rows. Throws UserError unless it has two dims.
  Parameter sparse(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  Parameter buffer(std::string_view name, DType dtype, Shape shape, Init init,
                   Here at = Here::current()) const;
  // Records `path.FQN.name` with the shape, dtype and placement of the parameter FQN, initially zeros.
  Parameter moment(const Parameter& of, std::string_view name, Here at = Here::current()) const;

 private:
  State* state_;
  std::string path_;
};

}  // namespace lockstep
