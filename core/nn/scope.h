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
  Scope operator/(std::string_view part)
      const;  // "blocks" / "attn" is "blocks.attn". UserError for a part that is no name
  Scope operator/(int64_t index) const;              // "blocks" / 3 is "blocks.3"
  const std::string& path() const { return path_; }  // "" at the root
  State& state() const { return *state_; }

  // Each records the tensor `path.name` in the state; see State::record for what it throws.
  Parameter parameter(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  Parameter frozen(std::string_view name, Shape shape, Init init,
                   Here at = Here::current()) const;  // a parameter that is not trained
  // A parameter [out, in] of a layer that computes with it by projected() (core/nn/layers.h) alone, so that
  // State::lora may put an adapter beside it.
  Parameter projection(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  // A trained table [rows, width] with sparse gradients: a step reads rows of it by embedding(),
  // embedding_bag() or take() alone, and replaces these rows alone. UserError: it has not two dims.
  Parameter sparse(std::string_view name, Shape shape, Init init, Here at = Here::current()) const;
  Parameter buffer(std::string_view name, DType dtype, Shape shape, Init init,
                   Here at = Here::current()) const;
  // `path.FQN.name` with the shape and dtype of the parameter FQN, placed with it, zeros at the start.
  Parameter moment(const Parameter& of, std::string_view name, Here at = Here::current()) const;

 private:
  State* state_;
  std::string path_;
};

}  // namespace lockstep
