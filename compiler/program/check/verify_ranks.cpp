// Compares the ranks of each group.
#include "compiler/program/check/verify.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Verb = StartCollective::Verb;

std::string text_of(const StartCollective& start) {
  return str(name(start.verb), " ", name(start.dtype), " \"", start.label, "\"",
             start.more ? " with the next" : "");
}

bool is_pair(const StartCollective& start) { return start.verb == Verb::send || start.verb == Verb::recv; }

// The collectives of one rank along one group, in order, without point-to-point transfers.
std::vector<const StartCollective*> starts_along(const StepProgram& program, const std::string& along) {
  std::vector<const StartCollective*> out;
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what);
        start && start->along == along && !is_pair(*start))
      out.push_back(start);
  return out;
}

// A rank's transfers to and from one member of the group, in order.
std::vector<const StartCollective*> pairs_with(const StepProgram& program, const std::string& along,
                                               Verb verb, int peer) {
  std::vector<const StartCollective*> out;
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what);
        start && start->along == along && start->verb == verb && start->peer == peer)
      out.push_back(start);
  return out;
}

// Sends of one rank must match receives of the other, in the same order.
void compare_pairs(const std::vector<StepProgram>& programs, const std::vector<int64_t>& ranks,
                   const std::string& along) {
  for (size_t a = 0; a < ranks.size(); ++a)
    for (size_t b = 0; b < ranks.size(); ++b) {
      const auto sent = pairs_with(programs[ranks[a]], along, Verb::send, static_cast<int>(b));
      const auto received = pairs_with(programs[ranks[b]], along, Verb::recv, static_cast<int>(a));
      const std::string where = str("along ", along, " rank ", ranks[a], " sends rank ", ranks[b], " ");
      if (sent.size() != received.size())
        throw InternalError(str(where, sent.size(), " messages, and it receives ", received.size()));
      for (size_t i = 0; i < sent.size(); ++i)
        if (sent[i]->dtype != received[i]->dtype || sent[i]->label != received[i]->label ||
            sent[i]->send.at(0) != received[i]->receive.at(0))
          throw InternalError(str(where, "\"", sent[i]->label, "\", ", sent[i]->send[0], " ",
                                  name(sent[i]->dtype), ", where it receives \"", received[i]->label, "\", ",
                                  received[i]->receive[0], " ", name(received[i]->dtype)));
    }
}

void compare(const std::vector<StepProgram>& programs, const std::vector<int64_t>& ranks,
             const std::string& along) {
  std::vector<std::vector<const StartCollective*>> of;
  for (int64_t rank : ranks) of.push_back(starts_along(programs[rank], along));
  for (size_t m = 1; m < ranks.size(); ++m) {
    const auto where = [&](size_t i) {
      return str("collective ", i, " along ", along, " of ranks ", ranks[0], " and ", ranks[m]);
    };
    if (of[m].size() != of[0].size())
      throw InternalError(str("along ", along, " rank ", ranks[0], " starts ", of[0].size(),
                              " collectives, and rank ", ranks[m], " ", of[m].size()));
    for (size_t i = 0; i < of[0].size(); ++i) {
      const auto &a = *of[0][i], &b = *of[m][i];
      if (a.verb != b.verb || a.label != b.label || a.dtype != b.dtype || a.more != b.more)
        throw InternalError(str(where(i), " differ: ", text_of(a), " and ", text_of(b)));
      if (a.verb != Verb::all_gather) continue;
      // Gathers of weights with one label are distinguished by their tensors.
      const std::string &from = programs[ranks[0]].regions[a.from.region].name,
                        &other = programs[ranks[m]].regions[b.from.region].name;
      if (from != other) throw InternalError(str(where(i), " gathers ", from, " and ", other));
    }
  }
  for (size_t i = 0; !of.empty() && i < of[0].size(); ++i) {
    for (size_t m = 1; m < of.size() && of[0][i]->verb == Verb::reduce_scatter; ++m)
      if (of[m][i]->send != of[0][i]->send)
        throw InternalError(str("\"", of[0][i]->label, "\" along ", along, ": ranks ", ranks[0], " and ",
                                ranks[m], " cut what they sum into other parts"));
    if (of[0][i]->verb != Verb::all_to_all && of[0][i]->verb != Verb::all_gather) continue;
    for (size_t a = 0; a < of.size(); ++a)
      for (size_t b = 0; b < of.size(); ++b)
        if (a != b && of[a][i]->send[b] != of[b][i]->receive[a])
          throw InternalError(str("\"", of[a][i]->label, "\" along ", along, ": rank ", ranks[a], " sends ",
                                  of[a][i]->send[b], " elements, and rank ", ranks[b], " receives ",
                                  of[b][i]->receive[a]));
  }
}
}  // namespace

void verify_together(const std::vector<StepProgram>& programs, const Mesh& mesh, int seats) {
  // Ranks with the same key are a group.
  auto by = [&](const std::string& along, auto key_of) {
    std::map<std::vector<int64_t>, std::vector<std::pair<int64_t, int64_t>>> groups;
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      auto [key, place] = key_of(rank);
      groups[key].emplace_back(place, rank);
    }
    for (auto& [key, members] : groups) {
      std::sort(members.begin(), members.end());
      std::vector<int64_t> ranks;
      for (const auto& [place, rank] : members) ranks.push_back(rank);
      compare(programs, ranks, along);
      compare_pairs(programs, ranks, along);
    }
  };
  using Key = std::pair<std::vector<int64_t>, int64_t>;
  for (int d = 0; d < mesh.ndim(); ++d)
    by(mesh.dim_names[d], [&](int64_t rank) -> Key {
      auto at = mesh.coordinate(rank);
      const int64_t place = std::exchange(at[d], -1);
      return {at, place};
    });
  auto model_coordinate = [&](int64_t rank) {
    auto at = mesh.coordinate(rank);
    for (int d = 0; d < mesh.ndim(); ++d)
      if (is_data_dim(mesh.dim_names[d])) at[d] = -1;
    return at;
  };
  by(std::string(kDataDims),
     [&](int64_t rank) -> Key { return {model_coordinate(rank), mesh.data_rank(rank)}; });
  if (!seats) return;
  for (const bool inside : {true, false})
    by(inside ? "inside_hosts" : "across_hosts", [&](int64_t rank) -> Key {
      auto key = model_coordinate(rank);
      const int64_t data = mesh.data_rank(rank);
      key.push_back(inside ? data / seats : data % seats);
      return {key, inside ? data % seats : data / seats};
    });
}

}  // namespace lockstep::compiler
