// TokenFinder: keeps edges in a hash table, and computes links in breadth-first order.
#include "launcher/data/tokenizer/token_finder.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "launcher/data/tokenizer/stop.h"

namespace lockstep::launcher::data {

namespace {
uint64_t mixed(uint64_t key) {
  key *= 0x9e3779b97f4a7c15;
  return key ^ key >> 32;
}
}  // namespace

TokenFinder::State& TokenFinder::place(State at, unsigned char byte) {
  const uint64_t from = uint64_t{at} << 8 | byte;
  const size_t mask = edges_.size() - 1;
  size_t i = mixed(from) & mask;
  while (edges_[i].to != kStart && edges_[i].from != from) i = (i + 1) & mask;
  edges_[i].from = from;
  return edges_[i].to;
}

void TokenFinder::grow() {
  std::vector<Edge> old(std::max<size_t>(16, 2 * edges_.size()));
  old.swap(edges_);
  for (const Edge& edge : old)
    if (edge.to != kStart)
      place(static_cast<State>(edge.from >> 8), static_cast<unsigned char>(edge.from & 255)) = edge.to;
}

void TokenFinder::add(std::string_view text, int32_t id) {
  State at = kStart;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (2 * (used_ + 1) > edges_.size()) grow();
    State& to = place(at, byte);
    if (to == kStart) {
      LS_CHECK(ends_.size() < ~State{0}, "states");
      to = static_cast<State>(ends_.size());
      ++used_;
      before_.push_back(at), byte_.push_back(byte), ends_.push_back(-1);
      depth_.push_back(depth_[at] + 1);
    }
    at = to;
  }
  if (at != kStart) ends_[at] = id;
}

void TokenFinder::finish() {
  if (edges_.empty()) grow();
  // The failure link of a state follows from that of its parent, which is less deep. Sorting by depth makes
  // it ready.
  std::vector<State> by_depth(ends_.size());
  std::iota(by_depth.begin(), by_depth.end(), kStart);
  std::stable_sort(by_depth.begin(), by_depth.end(),
                   [this](State a, State b) { return depth_[a] < depth_[b]; });
  fall_.assign(ends_.size(), kStart), shorter_.assign(ends_.size(), kStart);
  for (State s : by_depth) {
    if (depth_[s] > 1) fall_[s] = next(fall_[before_[s]], byte_[s]);
    shorter_[s] = ends_[fall_[s]] >= 0 ? fall_[s] : shorter_[fall_[s]];
  }
  before_ = {}, byte_ = {};
}

TokenFinder::State TokenFinder::child(State at, unsigned char byte) const {
  const uint64_t from = uint64_t{at} << 8 | byte;
  const size_t mask = edges_.size() - 1;
  size_t i = mixed(from) & mask;
  while (edges_[i].to != kStart && edges_[i].from != from) i = (i + 1) & mask;
  return edges_[i].to;
}

TokenFinder::State TokenFinder::next(State at, unsigned char byte) const {
  for (;; at = fall_[at]) {
    if (const State to = child(at, byte); to != kStart) return to;
    if (at == kStart) return kStart;
  }
}

TokenFinder::Found TokenFinder::beginning(std::string_view text) const {
  Found out;
  State at = kStart;
  for (const char c : text) {
    at = child(at, static_cast<unsigned char>(c));
    if (at == kStart) break;
    if (ends_[at] >= 0) out = {ends_[at], depth_[at]};
  }
  return out;
}

// Tokens are stored reversed, and the text is read from its end. So the tokens that "end" at a position in
// reverse are those that begin there, and the first one reported is the longest.
void LongestTokens::add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  last_[static_cast<unsigned char>(text.back())] = true;
  backwards_.add(std::string(text.rbegin(), text.rend()), id);
}

void LongestTokens::find(std::string_view text, std::vector<At>& out) const {
  out.clear();
  StopEvery look;
  TokenFinder::State at = TokenFinder::kStart;
  for (size_t begin = text.size(); begin-- > 0; look()) {
    const auto byte = static_cast<unsigned char>(text[begin]);
    if (at == TokenFinder::kStart && !last_[byte]) continue;
    at = backwards_.next(at, byte);
    backwards_.ending(at, [&](int32_t id, uint32_t bytes) {
      out.push_back({begin, bytes, id});
      return false;
    });
  }
}

}  // namespace lockstep::launcher::data
