// What an attention node reads beside q, k and v, by its attributes: masks, a bias, a key for dropout.
#pragma once

#include <cstddef>
#include <string>

#include "core/ir/graph.h"

namespace lockstep {

// sdpa reads q, k, v; sdpa_grad reads dy, q, k, v, o, lse. Behind them stand, in this order and where the
// attributes name them: lengths i32 [B]; documents i32 [B,T]; mask bool and bias (f32, f64 for f64), whose
// four dims are those of the scores [B,H,T,S] or 1; seed, step and sample of dropout, i64 [].
struct AttentionReads {
  bool causal = false;
  int64_t window = 0;                                     // 0: none
  size_t lengths = 0, documents = 0, mask = 0, bias = 0;  // places among the inputs; 0: not read
  size_t seed = 0;                                        // then step and sample
  double dropout = 0;
  bool bias_gradient = false;    // sdpa_grad gives that of the scores, [B,H,T,S], too
  size_t first = 0, inputs = 0;  // q's place, and how many there are
  // Whether a row may see no key: its output is 0 then, and its log-sum-exp.
  bool may_see_nothing() const { return lengths || mask || bias; }
  bool plain() const { return inputs == first + (first ? 5 : 3) && !window; }  // causal or not, no more
};
AttentionReads attention_reads(const Node& node);
std::string masks_text(const AttentionReads& reads);  // " causal window=64 lengths", for names of calls
// Pairs of a query and a key that are seen, as causal and window leave them; the other masks are data.
double attention_pairs(const AttentionReads& reads, int64_t queries, int64_t keys);
AttentionReads attention_reads(OpId op, const Attrs& attrs);

}  // namespace lockstep
