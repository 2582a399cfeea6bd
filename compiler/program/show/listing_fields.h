// The fields of a program's types, named once for both the writer and the reader of its listing.
#pragma once

#include <array>
#include <concepts>
#include <string_view>

#include "compiler/program/words/program.h"

namespace lockstep::compiler::listing_detail {

template <class T, class Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

inline constexpr std::array<std::string_view, 17> kInstrWords{
    "run",         "start",      "wait",     "accumulate",  "sum_trees",     "copy",
    "zero",        "add_counts", "update",   "sum_squares", "norm_of_words", "checksum_spans",
    "show_output", "sum_rows",   "put_rows", "take_rows",   "start_copies"};
inline constexpr std::array<std::string_view, 5> kCallWords{"kernel", "library", "evaluate", "start", "wait"};
inline constexpr std::array<Region::Kind, 7> kRegionKinds{
    Region::Kind::state,   Region::Kind::input,   Region::Kind::arena, Region::Kind::value,
    Region::Kind::partial, Region::Kind::staging, Region::Kind::result};
using Verb = StartCollective::Verb;
inline constexpr std::array<Verb, 6> kVerbs{Verb::all_gather,     Verb::all_to_all, Verb::all_reduce,
                                            Verb::reduce_scatter, Verb::send,       Verb::recv};

void fields(auto& f, Is<Region> auto& x) {
  f("", x.kind)("", x.name)("bytes", x.bytes)("on_host", x.on_host);
}

void fields(auto& f, Is<RunBlock> auto& x) {
  f("", x.block)("from", x.first)("to", x.last)("inputs", x.inputs)("own", x.own)("shared", x.shared)(
      "micro_batches", x.micro_batches)("strides", x.strides);
}
void fields(auto& f, Is<StartCollective> auto& x) {
  f("", x.verb)("", x.label)("along", x.along)("of", x.dtype)("sends", x.send)("receives", x.receive)(
      "peer", x.peer)("from", x.from)("to", x.to)("flight", x.flight)("more", x.more);
}
void fields(auto& f, Is<Wait> auto& x) { f("flight", x.flight); }
void fields(auto& f, Is<Accumulate::Piece> auto& x) { f("", x.from)("at", x.at)("of", x.dtype); }
void fields(auto& f, Is<Accumulate> auto& x) { f("pieces", x.pieces)("lefts", x.lefts)("to", x.to); }
void fields(auto& f, Is<SumTrees::Tree::Source> auto& x) { f("", x.at)("of", x.dtype); }
void fields(auto& f, Is<SumTrees::Tree> auto& x) {
  f("sources", x.sources)("merges", x.merges)("rows", x.rows)("width", x.width)("to", x.out)("row_squares",
                                                                                             x.row_squares);
}
void fields(auto& f, Is<SumTrees> auto& x) { f("trees", x.trees); }
void fields(auto& f, Is<CopySpans::Copy> auto& x) { f("from", x.from)("to", x.to); }
void fields(auto& f, Is<CopySpans> auto& x) { f("copies", x.copies); }
void fields(auto& f, Is<StartCopies> auto& x) {
  f("", x.label)("to_host", x.to_host)("copies", x.copies)("flight", x.flight);
}
void fields(auto& f, Is<ZeroSpan> auto& x) { f("", x.at); }
void fields(auto& f, Is<AddCounts> auto& x) { f("addend", x.addend)("totals", x.totals); }
void fields(auto& f, Is<UpdateTensors::Tensor> auto& x) {
  f("node", x.node)("count", x.count)("inputs", x.inputs)("outputs", x.outputs)("copy", x.copy)(
      "copy_of", x.copy_dtype)("scale", x.scale)("before", x.scale_before)("largest", x.largest)(
      "halves", x.halves)("by_rows", x.by_rows)("ids", x.ids)("rows", x.rows)("width", x.width)("first",
                                                                                                x.first);
}
void fields(auto& f, Is<UpdateTensors> auto& x) {
  f("tensors", x.tensors)("gates", x.gates)("limits", x.limits);
}
void fields(auto& f, Is<SumRows> auto& x) {
  f("ids", x.ids)("rows", x.rows)("width", x.width)("of", x.table_rows)("first", x.first)("owned", x.owned)(
      "to", x.out_ids)("", x.out_rows)("squares", x.squares);
}
void fields(auto& f, Is<TakeRows::Piece> auto& x) { f("", x.ids)("to", x.to); }
void fields(auto& f, Is<TakeRows> auto& x) {
  f("", x.table)("width", x.width)("of", x.table_rows)("first", x.first)("pieces", x.pieces);
}
void fields(auto& f, Is<PutRows> auto& x) {
  f("", x.table)("ids", x.ids)("rows", x.rows)("width", x.width)("gates", x.gates)("limits", x.limits);
}
void fields(auto& f, Is<SumSquares> auto& x) { f("addends", x.addends)("words", x.words); }
void fields(auto& f, Is<NormOfWords> auto& x) { f("words", x.words)("norm", x.norm); }
void fields(auto& f, Is<ChecksumSpans> auto& x) { f("parts", x.parts)("sums", x.sums)("wanted", x.wanted); }
void fields(auto& f, Is<ShowOutput> auto& x) { f("output", x.output)("", x.at); }

void fields(auto& f, Is<StepOutput> auto& x) { f("", x.name)("", x.at)("of", x.dtype); }
void fields(auto& f, Is<Replica> auto& x) {
  f("", x.name)("part", x.part)("", x.at)("index", x.index)("count", x.count);
}

void fields(auto& f, Is<BlockCall> auto& x) {
  f("", x.kind)("", x.name)("args", x.args)("inputs", x.inputs)("node", x.node)("flight", x.flight)(
      "workspace_bytes", x.workspace_bytes)("workspace", x.workspace)("what", x.what)("family", x.family)(
      "flops", x.flops)("bytes", x.bytes);
}
void fields(auto& f, Is<GatherPlan::Segment> auto& x) {
  f("input", x.input)("bytes", x.bytes)("from", x.first)("last", x.last)("bucket", x.bucket);
}
void fields(auto& f, Is<GatherPlan::Bucket> auto& x) {
  f("segments", x.segments)("bytes", x.bytes)("start", x.start)("wait", x.wait);
}
void fields(auto& f, Is<AwayValue> auto& x) {
  f("leaves", x.leaves)("gone", x.gone)("comes", x.comes)("back", x.back)("from", x.from)("to", x.to)(
      "at", x.at)("bytes", x.bytes)("node", x.node);
}
// All fields except its calls and its graph.
void fields(auto& f, Is<ProgramBlock> auto& x) {
  f("groups", x.groups)("outputs", x.outputs)("ready", x.ready)("segments", x.gathers.segments)(
      "buckets", x.gathers.buckets)("segment_at", x.segment_at)("micro_batches", x.micro_batches)(
      "own_bytes", x.own_bytes)("shared_bytes", x.shared_bytes)("floor", x.floor)("away", x.away)(
      "host_bytes", x.host_bytes)("stall", x.stall);
}
// All fields except its lists.
void fields(auto& f, Is<StepProgram> auto& x) {
  f("rank", x.rank)("mesh", x.mesh)("micro_batches", x.micro_batches)("lanes", x.lanes)("flights", x.flights)(
      "votes", x.votes)("block_names", x.block_names)("metrics", x.metrics)("gates", x.gates)(
      "updated", x.updated)("put", x.put)("replicas", x.replicas);
}

}  // namespace lockstep::compiler::listing_detail
