// Fetches rows of sparse tables before the bodies that read them. From a whole table, each body gets copies
// of its rows. For a split table, the ids of all micro-batches are gathered along dp_shard. Each rank writes
// the rows that it owns, with zeros for those of others. The integer sum of these words gives every row
// unchanged, so a reduce_scatter sends each rank the rows of its own micro-batches.
#include <algorithm>
#include <utility>

#include "compiler/program/build/builder.h"
#include "core/base/error.h"
#include "core/mesh/layout.h"

namespace lockstep::compiler {

namespace {
const std::string kOwners = "dp_shard";
// Pads rows of a micro-batch to the memory alignment of devices.
int64_t padded(int64_t elements) { return slot_stride(elements * kWord) / kWord; }
}  // namespace

void StepBuilder::make_fetches() {
  const auto& fetches = plan_.phases.fetches;
  for (const auto& fetch : fetches) {
    const int64_t ids = numel(whole_[fetch.ids].shape);
    const bool split = fetch.copied < 0, counted = fetch.counted >= 0;
    copied_ids_at_.push_back(!split && counted ? copied_words_ : -1);
    if (!split && counted) copied_words_ += padded(ids);
    fetched_.ids_at.push_back(split ? fetched_.words : -1);
    fetched_.rows_at.push_back(split ? fetched_.elements : -1);
    fetched_.spaced_at.push_back(split ? fetched_.spaced : -1);
    if (!split) continue;
    const int64_t elements = numel(whole_[fetch.rows].shape);
    fetched_.words += ids, fetched_.elements += elements, fetched_.spaced += padded(elements);
  }
  if (copied_words_)
    copied_ids_ = writer_.region(Kind::staging, "ids of rows to copy", slots_ * copied_words_ * kWord);
  if (!fetched_.words) return;
  const Mesh& mesh = rank_.mesh;
  const auto ranks = mesh.ranks_along(mesh.dim(kOwners), rank_.rank);
  int64_t all = 0;
  for (int64_t rank : ranks) {
    const auto data = static_cast<int>(mesh.data_rank(rank));
    int64_t count = 0;
    for (int64_t slot = 0; slot < sum_.lanes.slots(data); ++slot)
      count += sum_.lanes.micro_batch(data, slot) >= 0;
    fetched_.counts.push_back(count), all += count;
  }
  const int64_t mine = fetched_.counts[mesh.coordinate(rank_.rank)[mesh.dim(kOwners)]];
  fetched_.ids = writer_.region(Kind::staging, "ids to fetch", mine * fetched_.words * kWord);
  fetched_.all_ids = writer_.region(Kind::staging, "ids to fetch of all", all * fetched_.words * kWord);
  fetched_.owned = writer_.region(Kind::staging, "rows to send", all * fetched_.elements * kWord);
  fetched_.received = writer_.region(Kind::staging, "rows received", mine * fetched_.elements * kWord);
  fetched_.rows = writer_.region(Kind::partial, "rows of micro-batches", slots_ * fetched_.spaced * kWord);
}

// The place where keep_ids() stores a micro-batch's ids of rows of a whole table.
Span StepBuilder::ids_at(const Phases::Fetch& fetch, int64_t slot) const {
  const size_t f = static_cast<size_t>(&fetch - plan_.phases.fetches.data());
  return words(copied_ids_, slot * copied_words_ + copied_ids_at_[f], numel(whole_[fetch.ids].shape));
}

void StepBuilder::keep_ids(int64_t slot, int64_t before, const std::vector<Span>& inputs) {
  CopySpans copy;
  for (size_t f = 0; f < plan_.phases.fetches.size(); ++f) {
    const auto& fetch = plan_.phases.fetches[f];
    if (fetch.copied >= 0 && fetch.counted < 0) continue;
    Span from;
    if (fetch.counted >= 0) from = output_of(kCountBlock, fetch.counted, inputs);
    for (const auto& input : whole_.inputs)
      if (input.value == fetch.ids) {
        const Field& field = batch_.at(input.name);
        from = field.all.part(slot * field.stride, field.bytes);
      }
    copy.copies.push_back(
        {fetch.copied >= 0
             ? ids_at(fetch, slot)
             : words(fetched_.ids, before * fetched_.words + fetched_.ids_at[f], from.bytes / kWord),
         from});
  }
  if (!copy.copies.empty()) writer_.put(std::move(copy));
}

void StepBuilder::fetch_rows() {
  if (!fetched_.words || fetched_.all_ids.bytes == 0) return;
  gather_ids();
  take_owned();
  StartCollective sum{.verb = Verb::reduce_scatter, .along = kOwners, .dtype = DType::i32};
  for (int64_t count : fetched_.counts) sum.send.push_back(count * fetched_.elements);
  sum.from = fetched_.owned, sum.to = fetched_.received, sum.label = "rows";
  writer_.wait(writer_.start(std::move(sum)));
  const auto& fetches = plan_.phases.fetches;
  CopySpans unpack;
  int64_t from = 0;
  for (int64_t slot = 0; slot < slots_; ++slot) {
    if (micro_batch(slot) < 0) continue;
    for (size_t f = 0; f < fetches.size(); ++f)
      if (fetches[f].copied < 0) {
        const Span to = rows_at(f, slot);
        unpack.copies.push_back({to, words(fetched_.received, from + fetched_.rows_at[f], to.bytes / kWord)});
      }
    from += fetched_.elements;
  }
  if (!unpack.copies.empty()) writer_.put(std::move(unpack));
}

// The place of a micro-batch's rows for one fetch of a split table.
Span StepBuilder::rows_at(size_t f, int64_t slot) const {
  return words(fetched_.rows, slot * fetched_.spaced + fetched_.spaced_at[f],
               numel(whole_[plan_.phases.fetches[f].rows].shape));
}

void StepBuilder::gather_ids() {
  StartCollective all{.verb = Verb::all_gather, .along = kOwners, .dtype = DType::i32};
  for (int64_t count : fetched_.counts) all.receive.push_back(count * fetched_.words);
  all.send.assign(fetched_.counts.size(), fetched_.ids.bytes / kWord);
  all.from = fetched_.ids, all.to = fetched_.all_ids, all.label = "ids";
  writer_.wait(writer_.start(std::move(all)));
}

// Takes, table by table, the rows of all ranks' micro-batches.
void StepBuilder::take_owned() {
  const auto& fetches = plan_.phases.fetches;
  const int64_t at = rank_.mesh.coordinate(rank_.rank)[rank_.mesh.dim(kOwners)];
  std::vector<ValueId> done;
  for (const auto& first : fetches) {
    if (first.copied >= 0 || std::find(done.begin(), done.end(), first.table) != done.end()) continue;
    done.push_back(first.table);
    const Value& table = whole_[first.table];
    TakeRows take{.table = at_[first.table],
                  .width = table.shape[1],
                  .table_rows = table.shape[0],
                  .first = balanced(table.shape[0], held_.size(kOwners), at).first,
                  .pieces = {}};
    int64_t micro_batches = 0;
    for (int64_t count : fetched_.counts) micro_batches += count;
    for (int64_t j = 0; j < micro_batches; ++j)
      for (size_t f = 0; f < fetches.size(); ++f)
        if (fetches[f].copied < 0 && fetches[f].table == first.table)
          take.pieces.push_back({words(fetched_.all_ids, j * fetched_.words + fetched_.ids_at[f],
                                       numel(whole_[fetches[f].ids].shape)),
                                 words(fetched_.owned, j * fetched_.elements + fetched_.rows_at[f],
                                       numel(whole_[fetches[f].rows].shape))});
    writer_.put(std::move(take), whole_.producer(first.rows).at);
  }
}

// Tells a body the places of its rows, and copies those of whole tables. The body of an idle slot runs if all
// ranks take part in its gathers; it reads rows of zeros, or those of id 0.
void StepBuilder::bring_rows(int64_t slot, int64_t arena, bool idle) {
  const auto& fetches = plan_.phases.fetches;
  if (fetches.empty()) return;
  const bool runs = !idle || (!plan_.phases.streamed.empty() && !by_layer());
  for (size_t f = 0; f < fetches.size() && runs; ++f) {
    const bool split = fetches[f].copied < 0;
    if (split) at_[fetches[f].rows] = rows_at(f, slot);
    if (idle && split) writer_.put(ZeroSpan{rows_at(f, slot)});
    if (idle && copied_ids_at_[f] >= 0) writer_.put(ZeroSpan{ids_at(fetches[f], slot)});
  }
  if (block(kCopiesBlock).outputs.empty() || !runs) return;
  for (const auto& fetch : fetches)
    if (fetch.copied >= 0 && fetch.counted >= 0) at_[fetch.ids] = ids_at(fetch, slot);
  writer_.set_micro_batch(micro_batch(slot));
  const auto inputs = inputs_of(plan_.phases.copies, slot);
  run(kCopiesBlock, inputs, 0, static_cast<int>(block(kCopiesBlock).calls.size()), arena);
  writer_.set_micro_batch(-1);
  for (const auto& fetch : fetches)
    if (fetch.copied >= 0)
      at_[fetch.rows] = output_of(kCopiesBlock, static_cast<size_t>(fetch.copied), inputs, arena);
}

// From a split table, by ids that this rank owns; SumRows counts them from its first row.
void StepBuilder::take_rows(const Node& node) {
  writer_.put(TakeRows{.table = at_[node.inputs[0]],
                       .width = whole_[node.inputs[0]].shape[1],
                       .table_rows = 0,
                       .first = 0,
                       .pieces = {{at_[node.inputs[1]], at_[node.outputs[0]]}}},
              node.at);
}

}  // namespace lockstep::compiler
