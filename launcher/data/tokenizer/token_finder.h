// Many texts found in one in a single pass, however long they are: Aho and Corasick, 1975.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::launcher::data {

class TokenFinder {
 public:
  // Of a text that is added twice the last id counts; an empty one is found nowhere.
  void add(std::string_view text, int32_t id);
  void finish();  // nothing is added from here on

  // Where a walk over a text is: in the longest beginning of a token with which the text so far ends.
  using State = uint32_t;
  static constexpr State kStart = 0;
  State next(State at, unsigned char byte) const;
  // Tokens with which the text so far ends, the longest first: take(id, bytes) says whether to go on.
  template <class Take>
  void ending(State at, const Take& take) const {
    for (State s = ends_[at] >= 0 ? at : shorter_[at]; s != kStart; s = shorter_[s])
      if (!take(ends_[s], depth_[s])) return;
  }
  // The token that is the longest beginning of a text; -1: none.
  struct Found {
    int32_t id = -1;
    uint32_t bytes = 0;
  };
  Found beginning(std::string_view text) const;

 private:
  State child(State at, unsigned char byte) const;  // kStart: none

  struct Edge {  // open addressing: by state << 8 | byte
    uint64_t from = ~uint64_t{0};
    State to = kStart;
  };
  std::vector<Edge> edges_;
  size_t used_ = 0;
  void grow();
  State& place(State at, unsigned char byte);

  std::vector<State> before_{kStart};  // of each state: the one without its last byte, until finish
  std::vector<unsigned char> byte_{0};
  std::vector<int32_t> ends_{-1};       // the token that it is; -1: none
  std::vector<uint32_t> depth_{0};      // bytes
  std::vector<State> fall_{kStart};     // the longest other state with which it ends
  std::vector<State> shorter_{kStart};  // the longest other token with which it ends
};

// The longest of the tokens that begin at each place of a text, all of them in one pass from its end.
class LongestTokens {
 public:
  void add(std::string_view text, int32_t id);  // as TokenFinder's
  void finish() { backwards_.finish(); }
  struct At {
    size_t begin;
    uint32_t bytes;
    int32_t id;
  };
  // Of places at which one begins, from the last to the first.
  void find(std::string_view text, std::vector<At>& out) const;

 private:
  TokenFinder backwards_;
  bool last_[256] = {};  // whether one ends with the byte
};

}  // namespace lockstep::launcher::data
