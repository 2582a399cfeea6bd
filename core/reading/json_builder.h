// Builds a JSON value from nlohmann's events in time linear in the text: it checks each object for repeated
// keys once, at its end.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

template <class Value>
class JsonBuilder : public nlohmann::json_sax<Value> {
 public:
  explicit JsonBuilder(size_t most_members) : most_members_(most_members) {}

  Value value;
  std::vector<std::string> doubled;  // keys that occur twice in an object; the last value counts
  int64_t members_left_out = 0;      // of objects with more than most_members
  size_t wrong_at = 0;               // the position after `token`, where parsing stopped
  std::string wrong, token;          // nlohmann's message; "": no error
  bool overflow = false;             // a number beyond the largest
  bool underflow = false;            // `token` is one that nlohmann reads as 0, and is not

  bool null() override { return put(nullptr); }
  bool boolean(bool one) override { return put(one); }
  bool number_integer(typename Value::number_integer_t one) override { return put(one); }
  bool number_unsigned(typename Value::number_unsigned_t one) override { return put(one); }
  bool number_float(typename Value::number_float_t one, const std::string& text) override {
    const auto digit = text.find_first_of("123456789");
    underflow = one == 0 && digit < text.find_first_of("eE");
    if (underflow) token = text;
    return !underflow && put(one);
  }
  bool string(std::string& one) override { return put(std::move(one)); }
  bool binary(typename Value::binary_t&) override { return false; }  // no text holds one
  bool start_object(size_t) override { return open_.emplace_back(Open{true, {}, {}}), true; }
  bool start_array(size_t) override { return open_.emplace_back(Open{false, {}, {}}), true; }
  bool key(std::string& one) override {
    open_.back().keys.push_back(std::move(one));
    return true;
  }
  bool end_array() override {
    Value out = Value::array();
    for (Value& one : open_.back().values) out.push_back(std::move(one));
    open_.pop_back();
    return put(std::move(out));
  }
  bool end_object() override {
    Open object = std::move(open_.back());
    open_.pop_back();
    const size_t count = std::min(object.keys.size(), most_members_);
    members_left_out += static_cast<int64_t>(object.keys.size() - count);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return object.keys[a] < object.keys[b]; });
    std::vector<bool> dropped(count, false);
    for (size_t i = 0, first = 0; i + 1 < count; ++i) {
      if (object.keys[order[first]] != object.keys[order[i + 1]]) {
        first = i + 1;
        continue;
      }
      doubled.push_back(object.keys[order[first]]);
      object.values[order[first]] = std::move(object.values[order[i + 1]]);
      dropped[order[i + 1]] = true;
    }
    Value out = Value::object();
    auto& members = out.template get_ref<typename Value::object_t&>();
    if constexpr (requires { members.reserve(count); }) members.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (dropped[i]) continue;
      if constexpr (requires { members.emplace_back(std::move(object.keys[i]), Value()); })
        members.emplace_back(std::move(object.keys[i]), std::move(object.values[i]));  // no search
      else
        members.emplace(std::move(object.keys[i]), std::move(object.values[i]));
    }
    return put(std::move(out));
  }
  bool parse_error(size_t position, const std::string& last,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    wrong_at = position, token = last, wrong = error.what(), overflow = error.id == kNumberOverflow;
    return false;
  }

 private:
  struct Open {
    bool object;
    std::vector<std::string> keys;
    std::vector<Value> values;
  };
  template <class One>
  bool put(One&& one) {
    if (open_.empty())
      value = Value(std::forward<One>(one));
    else if (Open& into = open_.back(); !into.object || into.keys.size() <= most_members_)
      into.values.emplace_back(std::forward<One>(one));
    return true;
  }

  const size_t most_members_;
  std::vector<Open> open_;
};

}  // namespace lockstep
