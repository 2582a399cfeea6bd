// One list of unfinished items for the process.
#include "core/files/unfinished.h"

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

namespace lockstep {

namespace {
using Kind = Unfinished::Kind;
struct Item {
  Kind kind;
  std::string what;
  int pid = 0;  // instead of kind and path
};
struct List {
  std::mutex mutex;
  std::map<int, Item> items;
  int next = 0;
};
List& list() {
  static auto* out = new List;  // it is used after static destructors
  return *out;
}

// The second signal makes a trainrun end its ranks at once.
void end_process(int pid) {
  constexpr int kLooks = 200;  // of 10 ms
  for (int signal : {SIGTERM, SIGINT}) ::kill(pid, signal);
  for (int i = 0; i < kLooks; ++i) {
    if (::kill(pid, 0) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(pid, SIGKILL);
}

void undo(const Item& item) {
  std::error_code ignored;
  if (item.pid) return end_process(item.pid);
  if (item.kind == Kind::tree)
    std::filesystem::remove_all(item.what, ignored);
  else
    std::remove(item.what.c_str());
}
}  // namespace

void Unfinished::add(Kind kind, const std::string& what) {
  std::lock_guard lock(list().mutex);
  numbers_.push_back(list().next++);
  list().items[numbers_.back()] = {kind, what};
}

void Unfinished::add_process(int pid) {
  std::lock_guard lock(list().mutex);
  numbers_.push_back(list().next++);
  list().items[numbers_.back()] = {Kind::entry, "", pid};
}

void Unfinished::keep() {
  std::lock_guard lock(list().mutex);
  for (int number : numbers_) list().items.erase(number);
  numbers_.clear();
}

Unfinished::~Unfinished() {
  std::lock_guard lock(list().mutex);
  for (auto number = numbers_.rbegin(); number != numbers_.rend(); ++number) {
    undo(list().items[*number]);
    list().items.erase(*number);
  }
}

void undo_unfinished() {
  list().mutex.lock();  // for good
  for (auto item = list().items.rbegin(); item != list().items.rend(); ++item) undo(item->second);
}

}  // namespace lockstep
