// One walk in order, with what is in flight and what was written; then the ranks of each group side by side.
#include "compiler/program/verify.h"

#include <algorithm>
#include <map>

#include "compiler/program/print.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
using Verb = StartCollective::Verb;

bool overlap(const Span& a, const Span& b) {
  return a.region == b.region && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Bytes of a region that were written: disjoint ranges, first to end.
class Written {
 public:
  void add(const Span& span) {
    auto& ranges = of_[span.region];
    int64_t first = span.offset, end = span.offset + span.bytes;
    auto at = ranges.upper_bound(first);
    if (at != ranges.begin() && std::prev(at)->second >= first) --at;
    while (at != ranges.end() && at->first <= end) {
      first = std::min(first, at->first), end = std::max(end, at->second);
      at = ranges.erase(at);
    }
    ranges[first] = end;
  }
  bool has(const Span& span) const {
    auto region = of_.find(span.region);
    if (region == of_.end()) return false;
    auto at = region->second.upper_bound(span.offset);
    return at != region->second.begin() && std::prev(at)->second >= span.offset + span.bytes;
  }

 private:
  std::map<int, std::map<int64_t, int64_t>> of_;
};

class Walk {
 public:
  explicit Walk(const StepProgram& program) : program_(program) {
    for (size_t r = 0; r < program.regions.size(); ++r)
      if (const auto kind = program.regions[r].kind;
          kind == Region::Kind::state || kind == Region::Kind::input)
        written_.add(program.whole(static_cast<int>(r)));
    waited_.assign(static_cast<size_t>(program.flights), false);
  }

  void run(const std::vector<Instr>& instrs) {
    for (const Instr& instr : instrs) step(instr);
  }
  void end() const {
    if (flying_.empty()) return;
    const auto& [flight, start] = *flying_.begin();
    fail(*start, str("nothing waits for flight ", flight));
  }

 private:
  [[noreturn]] void fail(const Instr& instr, const std::string& what) const {
    throw InternalError(str("step program of rank ", program_.rank, ": ", what, ": ", text(program_, instr),
                            instr.micro_batch >= 0 ? str(", micro-batch ", instr.micro_batch) : "",
                            instr.at.file.empty() ? "" : str(", at ", instr.at.text())));
  }
  void inside(const Instr& instr, const Span& span) const {
    const bool known = span.region >= 0 && span.region < static_cast<int>(program_.regions.size());
    if (!known || span.offset < 0 || span.offset + span.bytes > program_.regions[span.region].bytes)
      fail(instr, str("bytes ", span.offset, " to ", span.offset + span.bytes, " lie outside of region ",
                      known ? program_.regions[span.region].name : std::to_string(span.region)));
  }
  void step(const Instr& instr) {
    const Access access = access_of(program_, instr);
    for (const Span& span : access.reads) {
      inside(instr, span);
      for (const auto& [flight, start] : flying_)
        if (overlap(span, std::get<StartCollective>(start->what).to))
          fail(instr, str("reads ", program_.regions[span.region].name, " while \"",
                          std::get<StartCollective>(start->what).label, "\" is still writing it"));
      // Inside a block its own plan says what is written before it is read.
      if (!std::holds_alternative<RunBlock>(instr.what) && !written_.has(span))
        fail(instr, str("reads ", program_.regions[span.region].name, ", bytes ", span.offset, " to ",
                        span.offset + span.bytes, ", which nothing wrote"));
    }
    for (const Span& span : access.writes) {
      inside(instr, span);
      for (const auto& [flight, start] : flying_) {
        const auto& under_way = std::get<StartCollective>(start->what);
        if (overlap(span, under_way.to) || overlap(span, under_way.from))
          fail(instr, str("writes ", program_.regions[span.region].name, " while \"", under_way.label,
                          "\" is under way"));
      }
      written_.add(span);
    }
    if (const auto* start = std::get_if<StartCollective>(&instr.what)) {
      if (start->flight < 0 || start->flight >= program_.flights || waited_[start->flight] ||
          !flying_.emplace(start->flight, &instr).second)
        fail(instr, str("flight ", start->flight, " starts twice"));
    } else if (const auto* wait = std::get_if<Wait>(&instr.what)) {
      if (!flying_.erase(wait->flight)) fail(instr, str("flight ", wait->flight, " is not under way"));
      waited_[wait->flight] = true;
    }
  }

  const StepProgram& program_;
  Written written_;
  std::map<int, const Instr*> flying_;
  std::vector<bool> waited_;
};

// The collectives of one rank along one group, in order.
std::vector<const StartCollective*> starts_along(const StepProgram& program, const std::string& along) {
  std::vector<const StartCollective*> out;
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what); start && start->along == along)
      out.push_back(start);
  return out;
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
      if (a.verb != b.verb || a.label != b.label || a.dtype != b.dtype)
        throw InternalError(str(where(i), " differ: ", name(a.verb), " ", name(a.dtype), " \"", a.label,
                                "\" and ", name(b.verb), " ", name(b.dtype), " \"", b.label, "\""));
    }
  }
  for (size_t i = 0; !of.empty() && i < of[0].size(); ++i) {
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

void verify(const StepProgram& program) {
  Walk walk(program);
  walk.run(program.refresh);
  walk.run(program.instrs);
  walk.end();
}

void verify_together(const std::vector<StepProgram>& programs, const Mesh& mesh, int seats) {
  // Ranks that share the key are a group.
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

}  // namespace lockstep
