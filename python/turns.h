// Threads of Python that use one state take turns.
#pragma once

#include <memory>

#include "python/binding.h"

namespace lockstep::python {

// While it lives, no other thread computes with the state, reads or writes it. Made with the GIL held, which
// it gives away while it waits. A thread may take a turn within its own.
class Turn {
 public:
  explicit Turn(const State& state) : Turn(state, false) {}
  // The turn of train(). It lasts long, and the training may itself wait for threads that read its data: who
  // asks for the state meanwhile from another thread gets a UserError, and does not wait.
  static Turn of_training(const State& state) { return {state, true}; }
  ~Turn();
  Turn(const Turn&) = delete;

 private:
  struct Place;
  Turn(const State& state, bool training);
  static std::shared_ptr<Place> place_of(const State& state);

  std::shared_ptr<Place> place_;
  bool training_;
};

}  // namespace lockstep::python
