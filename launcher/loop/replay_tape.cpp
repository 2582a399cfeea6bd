// Writes and reads replay tapes: a file per rank, and a file of bytes.
#include "launcher/loop/replay_tape.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "checkpoint/checkpoint.h"
#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
constexpr const char* kValue = "/value.bin";
std::string tape_file(const std::string& folder, int rank) { return str(folder, "/tape-", rank, ".json"); }

Json to_json(const TapedValue& value) {
  return {value.micro_batch, value.place,    value.made, value.words, std::string(name(value.dtype)),
          value.shape,       str(value.hash)};
}
TapedValue taped_value(const Json& json) {
  return {json.at(0).get<int64_t>(),
          json.at(1).get<int64_t>(),
          json.at(2).get<std::string>(),
          json.at(3).get<std::string>(),
          parse_dtype(json.at(4).get<std::string>()),
          json.at(5).get<Shape>(),
          whole_number<uint64_t>(json.at(6).get<std::string>()).value_or(0)};
}
}  // namespace

Json to_json(const KeepOfReplay& keep) {
  return {{"folder", keep.folder},
          {"tensor", keep.tensor},
          {"before", keep.before},
          {"micro_batch", keep.micro_batch},
          {"place", keep.place}};
}
KeepOfReplay keep_of_replay(const Json& json) {
  return {json.at("folder").get<std::string>(), json.at("tensor").get<std::string>(),
          json.at("before").get<bool>(), json.at("micro_batch").get<int64_t>(),
          json.at("place").get<int64_t>()};
}

namespace {
// The first of the ranks that compute a micro-batch together.
bool speaks(const LiveMesh& mesh) {
  const auto at = mesh.coordinate();
  for (int d = 0; d < mesh.words.ndim(); ++d)
    if (!is_data_dim(mesh.words.dim_names[d]) && at[d] != 0) return false;
  return true;
}

void keep_tensor(const KeepOfReplay& keep, int64_t step, Workload& work) {
  const std::vector<const Array*> one{&work.state().array(keep.tensor)};
  checkpoint::SaveInfo info{step, Json::object(), "", Json::object()};
  info.allow_nonfinite = true;  // non-finite values may be the very difference
  checkpoint::save_checkpoint(keep.folder, info, one, work.mesh(), 0);
}

void keep_tape(const KeepOfReplay& keep, Step& step, const StepInput& fed, Workload& work) {
  const bool own = speaks(work.mesh());
  Json values = Json::array();
  tape_step(step, fed, work.state(), [&](const TapedValue& value, const std::byte* data) {
    if (!own) return;
    if (keep.micro_batch < 0) return values.push_back(to_json(value));
    if (value.micro_batch != keep.micro_batch || value.place != keep.place) return;
    const size_t bytes = static_cast<size_t>(numel(value.shape)) * size_of(value.dtype);
    write_whole(keep.folder + kValue, std::string(reinterpret_cast<const char*>(data), bytes));
  });
  if (keep.micro_batch < 0)
    write_whole(tape_file(keep.folder, work.rank()),
                values.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  barrier(*work.mesh().world, "tape");
}
}  // namespace

void keep_before(const KeepOfReplay& keep, Step& step, const StepInput& fed, Workload& work) {
  if (keep.folder.empty()) return;
  if (keep.tensor.empty()) return keep_tape(keep, step, fed, work);
  if (keep.before) keep_tensor(keep, fed.step - 1, work);
}
void keep_after(const KeepOfReplay& keep, int64_t step, Workload& work) {
  if (!keep.folder.empty() && !keep.tensor.empty() && !keep.before) keep_tensor(keep, step, work);
}

std::vector<TapedValue> read_tape(const std::string& folder) {
  std::vector<TapedValue> out;
  for (int rank = 0; std::filesystem::exists(tape_file(folder, rank)); ++rank) {
    std::string text, why;
    read_plain(tape_file(folder, rank), text, why);
    const Json json = bounded_json(text, {.bytes = int64_t{1} << 30});
    LS_CHECK(json.is_array(), "cannot read ", tape_file(folder, rank), ": ", why);
    for (const Json& one : json) out.push_back(taped_value(one));
  }
  std::sort(out.begin(), out.end(), [](const TapedValue& a, const TapedValue& b) {
    return std::tie(a.micro_batch, a.place) < std::tie(b.micro_batch, b.place);
  });
  return out;
}

std::vector<std::byte> read_taped_value(const std::string& folder) {
  std::string text, why;
  LS_CHECK(read_plain(folder + kValue, text, why, int64_t{1} << 40), "cannot read ", folder, kValue, ": ",
           why);
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

}  // namespace lockstep::launcher
