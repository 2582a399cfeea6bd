// Finds many texts of any length in one pass: Aho and Corasick, 1975.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::launcher::data {

class TokenFinder {
 public:
  // A text added twice gets the last id; an empty one is never found.
  void add(std::string_view text, int32_t id);
  void finish();  // nothing may be added afterwards

  // State of a walk over a text: the longest prefix of a token that is a suffix of the text so far.
  using State = uint32_t;
  static constexpr State kStart = 0;
  State next(State at, unsigned char byte) const;
  // Tokens that end here, longest first: take(id, bytes) returns whether to continue.
  template <class Take>
  void ending(State at, const Take& take) const {
    for (State s = ends_[at] >= 0 ? at : shorter_[at]; s != kStart; s = shorter_[s])
      if (!take(ends_[s], depth_[s])) return;
  }
  // The longest token that is a prefix of a text; -1: none.
  struct Found {
    int32_t id = -1;
    uint32_t bytes = 0;
  };
  Found beginning(std::string_view text) const;

 private:
  State child(State at, unsigned char byte) const;  // kStart: none

  struct Edge {  // hash table with open addressing; key: state << 8 | byte
    uint64_t from = ~uint64_t{0};
    State to = kStart;
  };
  std::vector<Edge> edges_;
  size_t used_ = 0;
  void grow();
  State& place(State at, unsigned char byte);

  std::vector<State> before_{kStart};  // for each state, the one without its last byte; until finish
  std::vector<unsigned char> byte_{0};
  std::vector<int32_t> ends_{-1};       // token of the state; -1: none
  std::vector<uint32_t> depth_{0};      // bytes
  std::vector<State> fall_{kStart};     // failure link: the longest other state that is its suffix
  std::vector<State> shorter_{kStart};  // the longest other token that is its suffix
};

// Finds the longest token that begins at each position of a text, in one pass from its end.
class LongestTokens {
 public:
  void add(std::string_view text, int32_t id);  // as TokenFinder's
  void finish() { backwards_.finish(); }
  struct At {
    size_t begin;
    uint32_t bytes;
    int32_t id;
  };
  // Visits positions at which a token begins, from last to first.
  void find(std::string_view text, std::vector<At>& out) const;

 private:
  TokenFinder backwards_;
  bool last_[256] = {};  // whether a token ends with the byte
};

}  // namespace lockstep::launcher::data
