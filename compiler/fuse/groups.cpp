// Groups: units, candidate pairs, legality, joining.
#include "compiler/fuse/groups.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
constexpr double kLeastShared = 1024;  // bytes that siblings must share

constexpr double kLaunch = 1000;     // work equivalent to the launch of a kernel
constexpr double kBytesPerWork = 6;  // bytes that move in the time of one vector instruction
}  // namespace

FuseGroups::FuseGroups(const Graph& graph, const FuseOptions& options) : graph_(graph), options_(options) {
  find_roles();
  find_waits();
  make_units();
}

void FuseGroups::find_waits() {
  behind_.assign(graph_.nodes.size(), kNoNode);
  for (NodeId n : graph_.node_ids()) {
    const Node& node = graph_.node(n);
    for (ValueId v : node.inputs)
      if (graph_[v].producer.valid()) behind_[n] = std::max(behind_[n], behind_[graph_[v].producer]);
    if (op_row(node.op).of_model && op_row(node.op).half == CollectiveHalf::wait) behind_[n] = n;
  }
}

// Whether `late` waits for a collective for which `early`, which others read, does not wait: as one kernel
// they would delay those other readers, too.
bool FuseGroups::waits_for_more(const Unit& early, const Unit& late) const {
  auto wait = [&](const Unit& unit) {
    NodeId last;
    for (NodeId n : unit.nodes) last = std::max(last, behind_[n]);
    return last;
  };
  if (wait(early) >= wait(late)) return false;
  for (NodeId n : early.nodes)
    for (ValueId v : graph_.node(n).outputs)
      if (leaves(v, early, &late)) return true;
  return false;
}

double FuseGroups::bytes(ValueId value) const {
  return static_cast<double>(numel(graph_[value].shape)) * static_cast<double>(size_of(graph_[value].dtype));
}

std::set<ValueId> FuseGroups::reads_of(const std::vector<NodeId>& nodes) const {
  std::set<ValueId> reads;
  for (NodeId n : nodes)
    for (ValueId input : graph_.node(n).inputs) reads.insert(sources_[input].begin(), sources_[input].end());
  for (NodeId n : nodes)
    for (ValueId output : graph_.node(n).outputs) reads.erase(output);
  return reads;
}

void FuseGroups::make_units() {
  unit_of_.assign(graph_.nodes.size(), -1);
  readers_.resize(graph_.values.size());
  for (NodeId n : graph_.node_ids()) {
    if (!needed_[n] || roles_[n] == FuseRole::copied) continue;
    unit_of_[n] = static_cast<int>(units_.size());
    Unit unit{{n}, roles_[n] == FuseRole::member, {}, next_version_++, -1, 0, 0};
    unit.reads = reads_of(unit.nodes);
    for (ValueId value : unit.reads) readers_[value].insert(unit_of_[n]);
    units_.push_back(std::move(unit));
  }
  order_units();
}

// A topological order of units (Kahn); empty units have no place.
void FuseGroups::order_units() {
  position_.assign(units_.size(), -1);
  std::vector<int> waiting(units_.size(), 0);
  std::vector<std::set<int>> next(units_.size());
  for (size_t k = 0; k < units_.size(); ++k)
    for (ValueId value : units_[k].reads) {
      NodeId producer = graph_[value].producer;
      if (producer.valid() && unit_of_[producer] != static_cast<int>(k) &&
          next[unit_of_[producer]].insert(static_cast<int>(k)).second)
        ++waiting[k];
    }
  std::vector<int> ready;
  for (size_t k = units_.size(); k-- > 0;)
    if (waiting[k] == 0 && !units_[k].nodes.empty()) ready.push_back(static_cast<int>(k));
  order_.clear();
  while (!ready.empty()) {
    int k = ready.back();
    ready.pop_back();
    position_[k] = static_cast<int>(order_.size());
    order_.push_back(k);
    for (int other : next[k])
      if (--waiting[other] == 0) ready.push_back(other);
  }
}

// Updates the order after b was joined into a, with no unit on a path between them. Of the units between
// their old places, first come those that a now reads, then a, then the others. The rest of the order is
// unchanged.
void FuseGroups::order_joined(int a, int b) {
  const int first = std::min(position_[a], position_[b]), last = std::max(position_[a], position_[b]);
  std::set<int> before;
  std::vector<int> open{a};
  while (!open.empty()) {
    const int k = open.back();
    open.pop_back();
    for (ValueId value : units_[k].reads) {
      const NodeId producer = graph_[value].producer;
      const int maker = !producer.valid() ? -1 : unit_of_[producer];
      if (maker >= 0 && maker != a && position_[maker] > first && before.insert(maker).second)
        open.push_back(maker);
    }
  }
  std::vector<int> front, back;
  for (int place = first; place <= last; ++place)
    if (int k = order_[place]; k >= 0 && k != a && k != b) (before.count(k) ? front : back).push_back(k);
  front.push_back(a);
  front.insert(front.end(), back.begin(), back.end());
  for (int place = first; place <= last; ++place) {
    const size_t at = place - first;
    order_[place] = at < front.size() ? front[at] : -1;
    if (at < front.size()) position_[front[at]] = place;
  }
  position_[b] = -1;
}

bool FuseGroups::leaves(ValueId value, const Unit& a, const Unit* b) const {
  if (buffered_[value]) return true;
  for (int reader : readers_[value])
    if (&units_[reader] != &a && &units_[reader] != b) return true;
  return false;
}

double FuseGroups::bytes_moved(const Unit& unit) const {
  double out = 0;
  for (ValueId value : unit.reads) out += bytes(value);
  for (NodeId n : unit.nodes)
    for (ValueId value : graph_.node(n).outputs)
      if (leaves(value, unit)) out += bytes(value);
  return out;
}

double FuseGroups::bytes_saved(const Unit& a, const Unit& b) const {
  double out = 0;
  for (ValueId value : a.reads)
    if (b.reads.count(value)) out += bytes(value);
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (NodeId n : from->nodes)
      for (ValueId value : graph_.node(n).outputs)
        if (to->reads.count(value)) out += bytes(value) * (leaves(value, a, &b) ? 1 : 2);
  return out;
}

std::vector<FuseGroups::Pair> FuseGroups::candidates() const {
  std::set<std::pair<int, int>> pairs;
  auto consider = [&](int a, int b) {
    if (a != b && units_[a].group && units_[b].group) pairs.insert({std::min(a, b), std::max(a, b)});
  };
  for (ValueId v : graph_.value_ids()) {
    const auto& readers = readers_[v];
    NodeId producer = graph_[v].producer;
    if (producer.valid() && unit_of_[producer] >= 0)
      for (int reader : readers) consider(unit_of_[producer], reader);
    if (bytes(v) < kLeastShared) continue;
    int looked = 0;
    for (auto i = readers.begin(); i != readers.end(); ++i)
      for (auto j = std::next(i); j != readers.end() && looked < 512; ++j) {
        const int gap = units_[*j].nodes.front() > units_[*i].nodes.front()
                            ? units_[*j].nodes.front() - units_[*i].nodes.back()
                            : units_[*i].nodes.front() - units_[*j].nodes.back();
        if (gap <= options_.reach) consider(*i, *j), ++looked;
      }
  }
  std::vector<Pair> out;
  for (auto [a, b] : pairs) {
    const Unit &first = units_[a], &second = units_[b];
    if (refused_.count({first.version, second.version})) continue;
    double saved = bytes_saved(first, second);
    bool vertical = false;
    for (auto [from, to] : {std::pair(&first, &second), std::pair(&second, &first)})
      for (NodeId n : from->nodes)
        for (ValueId value : graph_.node(n).outputs) vertical = vertical || to->reads.count(value) != 0;
    if (!vertical && (saved < kLeastShared || saved * 4 < std::min(bytes_moved(first), bytes_moved(second))))
      continue;
    out.push_back({a, b, saved});
  }
  std::stable_sort(out.begin(), out.end(), [](const Pair& x, const Pair& y) { return x.bytes > y.bytes; });
  return out;
}

// Whether a unit outside is reached from a or b and reaches a or b. Only units between them in the order are
// candidates.
bool FuseGroups::makes_cycle(int a, int b) const {
  const int last = std::max(position_[a], position_[b]);
  std::vector<int> open;
  std::set<int> seen;
  auto follow = [&](int from, bool first) {
    for (NodeId n : units_[from].nodes)
      for (ValueId value : graph_.node(n).outputs)
        for (int reader : readers_[value]) {
          if (reader == a || reader == b) {
            if (!first) return true;
            continue;
          }
          if (position_[reader] < last && seen.insert(reader).second) open.push_back(reader);
        }
    return false;
  };
  follow(a, true);
  follow(b, true);
  while (!open.empty()) {
    int k = open.back();
    open.pop_back();
    if (follow(k, false)) return true;
  }
  return false;
}

const KernelCost& FuseGroups::cost_of(const Graph& body) const {
  auto [known, fresh] = costs_.try_emplace(print(body, {.source_lines = false}));
  if (fresh) known->second = kernel_cost(body);
  return known->second;
}

void FuseGroups::measure(Unit& unit) const {
  if (unit.work >= 0) return;
  const KernelCost& cost = cost_of(*body_of({unit.nodes}).graph);
  LS_CHECK(cost.fits, graph_.node(unit.nodes[0]).op, " ", graph_.node(unit.nodes[0]).at.text(),
           ": a primitive of its own does not fit a kernel");
  unit.work = cost.work;
  unit.dear = cost.dear;
  unit.gathers = cost.gathers;
}

std::string FuseGroups::against(const Unit& a, const Unit& b, const Body& joined, const KernelCost& cost,
                                double saved) const {
  std::string why;
  if (!cost.fits)
    (void)fits_one_kernel(*joined.graph, &why);
  else if (cost.both_ways && options_.sums_both_ways &&
           !options_.sums_both_ways(cost.both_ways->rows, cost.both_ways->columns))
    why = str("sums over rows and over columns of ", cost.both_ways->rows, " x ", cost.both_ways->columns,
              " would leave most of the device idle");
  else if (static_cast<int>(joined.inputs.size() + joined.outputs.size()) > options_.max_buffers)
    why = "too many buffers";
  else if (cost.gathers > a.gathers + b.gathers)
    why = "an index would no longer run along memory";
  else if (cost.dear > a.dear + b.dear + (a.work + b.work) * 0.05 + kLaunch)
    why = "dear values would be computed more often";
  else if (cost.work > (a.work + b.work) * 1.1 + saved / kBytesPerWork + kLaunch)
    why = "more work than moving the bytes";
  return why;
}

bool FuseGroups::try_join(const Pair& pair) {
  Unit &a = units_[pair.a], &b = units_[pair.b];
  if (a.nodes.empty() || b.nodes.empty() || refused_.count({a.version, b.version})) return false;
  const auto key = std::pair(a.version, b.version);
  auto refuse = [&](const std::string& why) {
    refused_.insert(key);
    if (logs::enabled("fusion"))
      logs::topic("fusion",
                  str("apart: ", graph_.node(a.nodes.back()).op, " (node ", a.nodes.back(), ") and ",
                      graph_.node(b.nodes.back()).op, " (node ", b.nodes.back(), "): ", why));
    return false;
  };
  if (a.nodes.size() + b.nodes.size() > static_cast<size_t>(options_.max_nodes))
    return refuse("too many nodes");
  if (makes_cycle(pair.a, pair.b)) return refuse("another node is between them");
  if (waits_for_more(a, b) || waits_for_more(b, a)) return refuse("one waits for a collective, one does not");
  measure(a);
  measure(b);
  FuseGroup joined;
  std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
             std::back_inserter(joined.nodes));
  // body_of asks which values leave the group, so it must see both units as one.
  for (NodeId n : b.nodes) unit_of_[n] = pair.a;
  const double saved = bytes_saved(a, b);
  std::vector<NodeId> old = a.nodes;
  auto rename = [&](int from, int to) {
    for (ValueId value : b.reads) readers_[value].erase(from), readers_[value].insert(to);
  };
  std::set<ValueId> shared;
  for (ValueId value : b.reads)
    if (a.reads.count(value)) shared.insert(value);
  rename(pair.b, pair.a);
  const Body body = body_of(joined);
  const KernelCost& cost = cost_of(*body.graph);
  const std::string why = against(a, b, body, cost, saved);
  if (!why.empty()) {
    rename(pair.a, pair.b);
    for (ValueId value : shared) readers_[value].insert(pair.a);
    for (NodeId n : b.nodes) unit_of_[n] = pair.b;
    return refuse(why);
  }
  for (ValueId value : b.reads) readers_[value].erase(pair.a);
  for (ValueId value : a.reads) readers_[value].erase(pair.a);
  a.nodes = std::move(joined.nodes);
  a.reads = reads_of(a.nodes);
  for (ValueId value : a.reads) readers_[value].insert(pair.a);
  a.version = next_version_++;
  a.work = cost.work;
  a.dear = cost.dear;
  a.gathers = cost.gathers;
  b = Unit{};
  b.version = next_version_++;
  order_joined(pair.a, pair.b);
  return true;
}

void FuseGroups::join() {
  for (bool again = options_.enabled; again;) {
    again = false;
    for (const Pair& pair : candidates()) again = try_join(pair) || again;
  }
}

std::vector<FuseGroup> FuseGroups::groups() const {
  std::vector<FuseGroup> out;
  for (const Unit& unit : units_)
    if (unit.group && !unit.nodes.empty()) out.push_back({unit.nodes});
  return out;
}

}  // namespace lockstep::compiler
