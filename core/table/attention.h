// The optional inputs of an attention node, by its attributes: masks, a bias, a key for dropout.
#pragma once

#include <cstddef>
#include <string>

#include "core/ir/graph.h"

namespace lockstep {

// sdpa reads q, k, v; sdpa_grad reads dy, q, k, v, o, lse. The inputs that the attributes name follow in this
// order: lengths i32 [B]; documents i32 [B,T]; mask (bool) and bias (f32, f64 for f64); seed, step and sample
// of dropout, i64 []. The four dims of mask and bias are those of the scores [B,H,T,S] or 1.
struct AttentionReads {
  bool causal = false;
  int64_t window = 0;                                     // 0: none
  size_t lengths = 0, documents = 0, mask = 0, bias = 0;  // indices into the inputs; 0: not read
  size_t seed = 0;                                        // then step and sample
  double dropout = 0;
  bool bias_gradient = false;    // sdpa_grad also returns the gradient of the scores, [B,H,T,S]
  size_t first = 0, inputs = 0;  // index of q, and the number of inputs
  // Whether a row may see no key; its output and its log-sum-exp are then 0.
  bool may_see_nothing() const { return lengths || mask || bias; }
  bool plain() const { return inputs == first + (first ? 5 : 3) && !window; }  // causal or not, no more
};
AttentionReads attention_reads(const Node& node);
std::string masks_text(const AttentionReads& reads);  // " causal window=64 lengths", for names of calls
// The number of (query, key) pairs that causal and window leave visible; other masks are data and do not
// count.
double attention_pairs(const AttentionReads& reads, int64_t queries, int64_t keys);
AttentionReads attention_reads(OpId op, const Attrs& attrs);

}  // namespace lockstep
