// Compares fingerprints: one all_gather of hashes; on a difference the two ranks concerned broadcast their
// texts.
#include "core/mesh/fingerprint.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/mesh/together.h"

namespace lockstep {

namespace {
constexpr uint64_t kMagic = 0x314e495250'46534cull;  // "LSFPRIN1", increase it when the message changes

// Has the same layout in every version, so that programs of different versions can still compare.
struct Message {
  uint64_t magic = kMagic;
  uint64_t all = 0;
  std::array<uint64_t, kFingerprintParts + 1> parts{};  // 0: none
};

uint64_t hash_of(const FingerprintPart& part) {
  uint64_t hash = hash64(part.name);
  for (const auto& [key, value] : part.lines) hash = hash64(value, hash64(key, hash));
  return std::max<uint64_t>(hash, 1);
}

std::string packed(const FingerprintPart& part) {
  Json json = {{"name", part.name}, {"lines", part.lines}, {"way_out", part.way_out}, {"input", part.input}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
FingerprintPart unpacked(const std::string& text) {
  Json json = Json::parse(text);
  return {json.at("name"), json.at("lines"), json.at("way_out"), json.at("input")};
}

// The reference rank: the lowest rank of the majority, or rank 0 without one.
int reference_of(const std::vector<uint64_t>& hashes) {
  std::map<uint64_t, size_t> count;
  for (uint64_t hash : hashes) ++count[hash];
  for (size_t r = 0; r < hashes.size(); ++r)
    if (2 * count[hashes[r]] > hashes.size()) return static_cast<int>(r);
  return 0;
}

std::string shown(const std::string& key, const std::string& value) {
  return key.empty() ? value : str(key, " = ", value);
}

struct Difference {
  std::string key;
  std::optional<std::string> odd, right;  // absent: the rank has no such line
};
// Lines that differ or that `odd` lacks, in the order of `right`, then lines that only `odd` has.
std::vector<Difference> differences(const FingerprintPart& odd, const FingerprintPart& right) {
  std::map<std::string, std::string> of_odd(odd.lines.begin(), odd.lines.end());
  std::map<std::string, std::string> of_right(right.lines.begin(), right.lines.end());
  std::vector<Difference> out;
  for (const auto& [key, value] : right.lines) {
    auto found = of_odd.find(key);
    if (found == of_odd.end())
      out.push_back({key, {}, value});
    else if (found->second != value)
      out.push_back({key, found->second, value});
  }
  for (const auto& [key, value] : odd.lines)
    if (!of_right.count(key)) out.push_back({key, value, {}});
  return out;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> out;
  for (size_t i = 0; i < ranks.size() && i < 8; ++i) out.push_back(str(ranks[i]));
  return str(ranks.size() == 1 ? "rank " : "ranks ", join(out, ", "),
             ranks.size() > 8 ? str(" and ", ranks.size() - 8, " more") : "");
}

std::string message_of(const FingerprintPart& odd, const FingerprintPart& right, int odd_rank, int right_rank,
                       const std::string& when, const std::vector<int>& others) {
  auto all = differences(odd, right);
  std::string out = str("the ", right.name, " differs between ranks, ", when, ": ");
  if (all.empty()) {  // equal lines in another order
    out += str("rank ", odd_rank, " has its lines in another order than rank ", right_rank);
  } else {
    const Difference& first = all[0];
    if (!first.odd)
      out += str("rank ", odd_rank, " has no ", first.key, ", rank ", right_rank, " has ",
                 shown(first.key, *first.right));
    else if (!first.right)
      out += str("rank ", odd_rank, " has ", shown(first.key, *first.odd), ", rank ", right_rank, " has no ",
                 first.key);
    else
      out += str("rank ", odd_rank, " has ", shown(first.key, *first.odd), ", rank ", right_rank, " has ",
                 *first.right);
  }
  if (all.size() > 1) {
    std::vector<std::string> more;
    for (size_t i = 1; i < all.size() && i <= 4; ++i) more.push_back(all[i].key);
    out += str("; also different: ", join(more, ", "),
               all.size() > 5 ? str(" and ", all.size() - 5, " more") : "");
  }
  if (!others.empty())
    out += str("; ", ranks_text(others), others.size() == 1 ? " differs from rank " : " differ from rank ",
               right_rank, " too");
  return out + (right.way_out.empty() ? "" : "; " + right.way_out);
}
}  // namespace

void compare(Group& world, const std::string& when, const std::vector<FingerprintPart>& given) {
  LS_CHECK(given.size() <= kFingerprintParts, given.size(), " parts of a fingerprint");
  if (world.size() == 1) return;
  std::vector<FingerprintPart> parts{
      {"place in the program", {{"", when}}, "every rank must do the same things in the same order", false}};
  parts.insert(parts.end(), given.begin(), given.end());
  Message mine;
  for (size_t p = 0; p < parts.size(); ++p) mine.parts[p] = hash_of(parts[p]);
  mine.all = hash64(mine.parts.data(), sizeof mine.parts);
  const int n = world.size();
  std::vector<Message> all(n);
  all_gather(world, {&mine, all.data(), std::vector<int64_t>(n, sizeof mine), DType::u8}, "fingerprint");
  if (std::all_of(all.begin(), all.end(),
                  [&](const Message& other) { return other.magic == kMagic && other.all == all[0].all; }))
    return;
  for (int r = 0; r < n; ++r)
    if (all[r].magic != kMagic)
      throw PeerError(str(
          "rank ", r, " does not take part in the comparison of the ranks ", when,
          ": it is at another collective, or runs another version; start every rank with the same program"));

  size_t p = 0;
  while (std::all_of(all.begin(), all.end(),
                     [&](const Message& other) { return other.parts[p] == all[0].parts[p]; }))
    ++p;
  std::vector<uint64_t> hashes;
  for (const Message& message : all) hashes.push_back(message.parts[p]);
  const int right_rank = reference_of(hashes);
  std::vector<int> odd;
  for (int r = 0; r < n; ++r)
    if (hashes[r] != hashes[right_rank]) odd.push_back(r);
  std::string here = packed(p < parts.size() ? parts[p] : FingerprintPart{});
  FingerprintPart right = unpacked(broadcast_text(world, here, right_rank)),
                  other = unpacked(broadcast_text(world, here, odd[0]));
  if (right.name.empty()) right.name = other.name, right.way_out = other.way_out, right.input = other.input;
  const std::string text =
      p == 0 ? str("ranks meet at different places of the program: rank ", odd[0], " ", other.lines[0].second,
                   ", rank ", right_rank, " ", right.lines[0].second, "; ", right.way_out)
             : message_of(other, right, odd[0], right_rank, when, {odd.begin() + 1, odd.end()});
  barrier(world, "fingerprint");  // no rank leaves while another still waits for a text
  if (right.input) throw UserError(text);
  throw PeerError(text);
}

FingerprintPart issued_part(const LiveMesh& mesh) {
  FingerprintPart part{"sequence of started collectives",
                       {},
                       "every rank must start the same collectives in the same order",
                       false};
  std::vector<const Group*> told;
  auto add = [&](const std::string& name, const std::shared_ptr<Group>& group) {
    if (!group || group->size() == 1 || std::find(told.begin(), told.end(), group.get()) != told.end())
      return;
    told.push_back(group.get());
    Issued issued = group->issued();
    char hash[20];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(issued.hash));
    part.lines.push_back(
        {str("group ", name),
         issued.count == 0 ? "none" : str(issued.count, ", the last ", issued.last, " (", hash, ")")});
  };
  add("world", mesh.world);
  // The groups of a model dim start as many collectives as their data rank has micro-batches, so their
  // numbers differ. The same holds for the groups inside hosts.
  for (size_t d = 0; d < mesh.groups.size(); ++d)
    if (is_data_dim(mesh.words.dim_names[d])) add(mesh.words.dim_names[d], mesh.groups[d]);
  add("data", mesh.data);
  add("data on the device", mesh.device_data);
  add("across hosts", mesh.across);
  return part;
}

void settle_together(Group& group, const std::string& refused, const std::string& broken,
                     std::exception_ptr defect) {
  agree(group, refused);
  try {
    agree(group, broken, false);  // a defect is the rank's own; to the others it is a lost peer
  } catch (const PeerError&) {
    if (defect) std::rethrow_exception(defect);
    throw;
  }
}

}  // namespace lockstep
