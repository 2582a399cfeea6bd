// Ids that do not mix: a typed index, vectors that only this type of id indexes, and a range over all ids of
// a type.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <ostream>
#include <utility>
#include <vector>

namespace lockstep {

template <class Of>
class Id {
 public:
  constexpr Id() = default;  // none
  template <std::integral Index>
  constexpr explicit Id(Index index) : index_(static_cast<int32_t>(index)) {}

  constexpr bool valid() const { return index_ >= 0; }
  constexpr size_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;                      // none is before all others
  friend constexpr int operator-(Id a, Id b) { return a.index_ - b.index_; }  // their distance
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.index_; }  // -1 for none

 private:
  int32_t index_ = -1;
};

// The ids 0 .. count - 1 for a loop, or from the last to the first.
template <class IdOf>
class IdRange {
 public:
  class Iterator {
   public:
    constexpr Iterator(int64_t at, int step) : at_(at), step_(step) {}
    constexpr IdOf operator*() const { return IdOf(at_); }
    constexpr Iterator& operator++() { return at_ += step_, *this; }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    int64_t at_;
    int step_;
  };
  constexpr explicit IdRange(size_t count) : end_(static_cast<int64_t>(count)) {}
  constexpr Iterator begin() const { return {begin_, step_}; }
  constexpr Iterator end() const { return {end_, step_}; }
  constexpr IdRange backward() const { return {end_ - step_, begin_ - step_, -step_}; }

 private:
  constexpr IdRange(int64_t begin, int64_t end, int step) : begin_(begin), end_(end), step_(step) {}
  int64_t begin_ = 0, end_;
  int step_ = 1;
};

// One item per id.
template <class IdOf, class Item>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(size_t count, const Item& item = {}) : items_(count, item) {}
  decltype(auto) operator[](IdOf id) { return items_[id.index()]; }
  decltype(auto) operator[](IdOf id) const { return items_[id.index()]; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void assign(size_t count, const Item& item) { items_.assign(count, item); }
  void resize(size_t count) { items_.resize(count); }
  void push_back(Item item) { items_.push_back(std::move(item)); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  IdRange<IdOf> ids() const { return IdRange<IdOf>(items_.size()); }
  const std::vector<Item>& items() const { return items_; }
  bool operator==(const IdVector&) const = default;

 private:
  std::vector<Item> items_;
};

}  // namespace lockstep

template <class Of>
struct std::hash<lockstep::Id<Of>> {
  size_t operator()(lockstep::Id<Of> id) const { return id.index(); }
};
