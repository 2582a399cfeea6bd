// Turn: a lock by which Python threads use a state one at a time.
#pragma once

#include <memory>

#include "python/binding.h"

namespace lockstep::python {

// While an object lives, no other thread computes with the state, reads or writes it. The constructor needs
// the GIL and releases it while it waits. A thread may take a turn within its own (recursive).
class Turn {
 public:
  explicit Turn(const State& state) : Turn(state, false) {}
  // The turn of train(). It lasts long, and training may wait for threads that read its data. So another
  // thread that needs the state gets a UserError instead of waiting.
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
