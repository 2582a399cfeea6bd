// Finds uses of buffers, call by call, and the gaps between them.
#include "compiler/program/blocks/gaps.h"

#include <algorithm>
#include <map>

namespace lockstep::compiler {

namespace {
// A range of calls that touch a buffer.
struct Use {
  int first = 0, last = 0;
  ValueId read;  // the root that call `first` reads; kNoValue: it only writes
};

class Finder {
 public:
  Finder(const ProgramBlock& block, const PerValue<Place>& places, const PerValue<ValueId>& home)
      : block_(block),
        places_(places),
        home_(home),
        uses_(block.graph.values.size()),
        written_(block.graph.values.size(), -1),
        kept_(block.graph.values.size(), false) {
    for (size_t c = 0; c < block.calls.size(); ++c) add_uses(static_cast<int>(c));
    for (const auto& input : block.graph.inputs) kept_[buffer_of(input.value)] = true;
    for (const auto& output : block.graph.outputs) kept_[buffer_of(output.value)] = true;
  }

  std::vector<BufferGap> run(const std::vector<double>& seconds) {
    std::vector<double> until{0};
    for (double each : seconds) until.push_back(until.back() + each);
    std::vector<BufferGap> out;
    for (ValueId buffer : block_.graph.value_ids()) {
      auto& uses = uses_[buffer];
      if (kept_[buffer] || uses.size() < 2) continue;
      std::stable_sort(uses.begin(), uses.end(),
                       [](const Use& a, const Use& b) { return a.first < b.first; });
      BufferGap longest;
      double most = 0;
      int from = uses[0].last + 1;
      for (const Use& use : uses) {
        const double time = use.first > from ? until[use.first] - until[from] : 0;
        if (time > most && use.read != kNoValue && written_[use.read] < from)
          most = time, longest = {buffer, block_.graph[use.read].producer, from, use.first};
        from = std::max(from, use.last + 1);
      }
      if (most > 0 && longest.node.valid()) out.push_back(longest);
    }
    return out;
  }

 private:
  ValueId buffer_of(ValueId v) const { return home_[places_[v].root]; }
  void add_uses(int c) {
    const BlockCall& call = block_.calls[c];
    const Node& node = block_.graph.node(call.node);
    if (call.kind == BlockCall::Kind::start) {
      started_[call.flight] = c;
      return use(c, c, node.inputs[0], true);
    }
    const bool waits = call.kind == BlockCall::Kind::wait;
    const int from = waits ? started_.at(call.flight) : c;
    if (waits)
      use(from, c, block_.graph.node(block_.calls[from].node).inputs[0], true);
    else
      for (ValueId v : node.inputs) use(c, c, v, true);
    for (ValueId v : node.outputs) use(from, c, v, false);
  }
  void use(int first, int last, ValueId v, bool reads) {
    const ValueId root = places_[v].root;
    uses_[home_[root]].push_back({first, last, reads ? root : kNoValue});
    if (!reads) written_[root] = std::max(written_[root], last);
  }

  const ProgramBlock& block_;
  const PerValue<Place>& places_;
  const PerValue<ValueId>& home_;
  PerValue<std::vector<Use>> uses_;  // per buffer
  PerValue<int> written_;            // per root: the last call that writes a part of it
  PerValue<bool> kept_;              // per buffer: whether it has an input or an output
  std::map<int, int> started_;       // by flight
};
}  // namespace

std::vector<BufferGap> gaps_of(const ProgramBlock& block, const PerValue<Place>& places,
                               const PerValue<ValueId>& home, const std::vector<double>& seconds) {
  return Finder(block, places, home).run(seconds);
}

}  // namespace lockstep::compiler
