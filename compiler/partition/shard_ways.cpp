// Finds ways by letters, by special cases, and by linearity.
#include "compiler/partition/shard_ways.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using Kind = Placement::Kind;

class Ways {
 public:
  Ways(const Graph& graph, const Node& node, int64_t ranks, const std::set<int>& groups)
      : graph_(graph), node_(node), ranks_(ranks), groups_(groups) {
    groups_.insert(1);
    for (ValueId v : node.inputs) in_.push_back({graph[v].dtype, graph[v].shape});
    for (ValueId v : node.outputs) out_.push_back({graph[v].dtype, graph[v].shape});
  }

  std::vector<ShardWay> find() {
    add(std::vector<Placement>(in_.size(), Replicate()), std::vector<Placement>(out_.size(), Replicate()));
    const Op& row = op_row(node_.op);
    if (node_.op == ops::sum_lanes) {
      for (size_t d = 0; d < in_[0].shape.size(); ++d)
        each_group([&](int g) { dims(static_cast<int>(d), g, static_cast<int>(d), g); });
      return ways_;
    }
    const bool fused = node_.body && row.kind != OpKind::update;
    if (row.kind == OpKind::lanes || row.kind == OpKind::collective || row.kind == OpKind::structural ||
        fused)
      return ways_;
    if (node_.op == ops::reshape) {
      reshapes();
    } else {
      std::string rule = row.split ? row.split({node_.op, in_, node_.attrs, node_.at}) : "";
      SplitRule parsed = parse_split_rule(rule, in_, out_);
      if (node_.op == ops::sdpa || node_.op == ops::sdpa_grad) heads(parsed);
      by_letters(parsed);
      if (node_.op == ops::slice) slices();
      if (node_.op == ops::pad) pads();
      if (node_.op == ops::concat) concats();
    }
    partials(row);
    return ways_;
  }

 private:
  bool fits(const std::vector<Placement>& placements, const std::vector<TypedShape>& types) const {
    for (size_t i = 0; i < placements.size(); ++i)
      if (placements[i].kind == Kind::shard && !divides(types[i].shape, placements[i], ranks_)) return false;
    return true;
  }
  void add(std::vector<Placement> in, std::vector<Placement> out, bool made = false) {
    if (!fits(in, in_) || !fits(out, out_)) return;
    for (const auto& way : ways_)
      if (way.in == in && (!made || way.out == out)) return;
    ways_.push_back({std::move(in), std::move(out)});
  }
  // All inputs are cut at one dim, and the output at one.
  void dims(int in, int in_groups, int out, int out_groups) {
    add(std::vector<Placement>(in_.size(), Shard(in, in_groups)), {Shard(out, out_groups)});
  }
  template <class F>
  void each_group(F f) {
    for (int g : groups_) f(g);
  }

  void by_letters(const SplitRule& rule) {
    std::string letters;
    for (const auto* side : {&rule.in, &rule.out})
      for (const std::string& tensor : *side)
        for (char letter : tensor)
          if (rule.fixed.find(letter) == std::string::npos && letters.find(letter) == std::string::npos)
            letters += letter;
    for (char letter : letters)
      each_group([&](int g) {
        std::vector<Placement> in, out;
        for (const auto& tensor : rule.in) in.push_back(placed(tensor, letter, g, Replicate()));
        bool read =
            std::any_of(in.begin(), in.end(), [](const Placement& p) { return p.kind == Kind::shard; });
        for (const auto& tensor : rule.out)
          out.push_back(placed(tensor, letter, g, read ? Partial() : Replicate()));
        add(in, out, !read);  // a letter only of outputs: each rank makes its part from whole inputs
      });
  }
  Placement placed(const std::string& tensor, char letter, int groups, Placement without) const {
    size_t at = tensor.find(letter);
    return at == std::string::npos ? without : Shard(static_cast<int>(at), groups);
  }

  // Contiguous heads of q with their own key heads.
  void heads(SplitRule& rule) const {
    size_t first = node_.op == ops::sdpa ? 0 : 1;  // of q, k, v
    if (in_[first].shape[2] == in_[first + 1].shape[2]) return;
    if (in_[first + 1].shape[2] % ranks_) return;
    for (auto* side : {&rule.in, &rule.out})
      for (std::string& tensor : *side)
        for (char& letter : tensor)
          if (letter == 'H' || letter == 'G') letter = 'h';
  }

  // Finds the smallest runs of dims with equal products. The leading dim of a run, cut evenly on both sides,
  // gives the same cut.
  void reshapes() {
    const Shape &from = in_[0].shape, &to = out_[0].shape;
    if (numel(from) == 0) return;
    size_t i = 0, o = 0;
    while (i < from.size() || o < to.size()) {
      if (i < from.size() && from[i] == 1) {
        ++i;
        continue;
      }
      if (o < to.size() && to[o] == 1) {
        ++o;
        continue;
      }
      const int a = static_cast<int>(i), b = static_cast<int>(o);
      int64_t left = from[i++], right = to[o++];
      const bool same = left == right;
      while (left != right) left < right ? left *= from[i++] : right *= to[o++];
      if (same)
        each_group([&](int g) { dims(a, g, b, g); });
      else
        dims(a, 1, b, 1);
    }
  }

  // Slices that take whole groups of a dim.
  void slices() {
    const auto &start = node_.attrs.list("start"), &limit = node_.attrs.list("limit"),
               &step = node_.attrs.list("step");
    for (size_t d = 0; d < start.size(); ++d)
      each_group([&](int g) {
        int64_t unit = in_[0].shape[d] / g;
        if (step[d] == 1 && unit > 0 && unit * g == in_[0].shape[d] && start[d] % unit == 0 &&
            limit[d] % unit == 0 && limit[d] > start[d])
          dims(static_cast<int>(d), g, static_cast<int>(d), static_cast<int>((limit[d] - start[d]) / unit));
      });
  }
  // Pads whose groups are all padding, except the input's.
  void pads() {
    const auto &lo = node_.attrs.list("lo"), &hi = node_.attrs.list("hi");
    for (size_t d = 0; d < lo.size(); ++d)
      each_group([&](int g) {
        int64_t unit = in_[0].shape[d] / g;
        if (unit > 0 && unit * g == in_[0].shape[d] && lo[d] % unit == 0 && hi[d] % unit == 0)
          dims(static_cast<int>(d), g, static_cast<int>(d), static_cast<int>(out_[0].shape[d] / unit));
      });
  }
  void concats() {
    int d = static_cast<int>(node_.attrs.integer("dim"));
    for (const auto& type : in_)
      if (type.shape != in_[0].shape) return;
    each_group([&](int g) { dims(d, g, d, g * static_cast<int>(in_.size())); });
  }

  void partials(const Op& row) {
    std::vector<int> linear = row.linear;
    if (node_.op == ops::convert && is_float(in_[0].dtype) &&
        size_of(out_[0].dtype) >= size_of(in_[0].dtype) && is_float(out_[0].dtype))
      linear = {0};
    if (node_.op == ops::pad && node_.attrs.number("value") == 0) linear = {0};
    if (linear.empty()) return;
    const std::vector<Placement> out(out_.size(), Partial());
    auto with = [&](const std::vector<int>& which) {
      std::vector<Placement> in(in_.size(), Replicate());
      for (int i : which)
        if (i < static_cast<int64_t>(in.size())) in[i] = Partial();
      add(in, out);
    };
    if (row.joint) return with(linear);
    for (int i : linear) with({i});
  }

  const Graph& graph_;
  const Node& node_;
  const int64_t ranks_;
  std::set<int> groups_;
  std::vector<TypedShape> in_, out_;
  std::vector<ShardWay> ways_;
};
}  // namespace

std::vector<ShardWay> shard_ways(const Graph& graph, const Node& node, int64_t ranks,
                                 const std::set<int>& groups) {
  return Ways(graph, node, ranks, groups).find();
}

bool divides(const Shape& shape, const Placement& shard, int64_t ranks) {
  return shard.dim >= 0 && shard.dim < static_cast<int>(shape.size()) &&
         shape[shard.dim] % (ranks * shard.groups) == 0;
}

Shape shard_shape(const Shape& shape, const Placement& placement, int64_t ranks) {
  Shape out = shape;
  if (placement.kind != Kind::shard) return out;
  LS_CHECK(divides(shape, placement, ranks), text(placement), " of ", shape, " on ", ranks, " ranks");
  out[placement.dim] /= ranks;
  return out;
}

}  // namespace lockstep::compiler
