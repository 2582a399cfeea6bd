// Implements Turn: one lock per state.
#include "python/turns.h"

#include <atomic>
#include <map>
#include <mutex>

namespace lockstep::python {

struct Turn::Place {
  std::recursive_mutex one;
  std::atomic<int> trainings{0};
};

// Locks by the state's address, as long as a thread has a turn or waits for one.
std::shared_ptr<Turn::Place> Turn::place_of(const State& state) {
  static std::mutex guard;
  static auto* places = new std::map<const State*, std::weak_ptr<Place>>;
  std::lock_guard held(guard);
  if (const auto found = places->find(&state); found != places->end())
    if (auto place = found->second.lock()) return place;
  std::erase_if(*places, [](const auto& of) { return of.second.expired(); });
  auto place = std::make_shared<Place>();
  places->emplace(&state, place);
  return place;
}

Turn::Turn(const State& state, bool training) : place_(place_of(state)), training_(training) {
  if (!place_->one.try_lock()) {
    if (place_->trainings > 0)
      throw UserError(str("[train] ", python_line().text(),
                          ": train() of another thread has this state; use it after train(), or during it in "
                          "Validation(measured=...)"));
    nb::gil_scoped_release elsewhere;
    place_->one.lock();
  }
  if (training_) ++place_->trainings;
}

Turn::~Turn() {
  if (training_) --place_->trainings;
  place_->one.unlock();
}

}  // namespace lockstep::python
