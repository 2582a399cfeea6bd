// The spans that each kind of instruction reads and writes.
#include "compiler/program/words/program.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
struct Finder {
  const StepProgram& program;
  Access out;
  void read(const Span& span) {
    if (span.there() && span.bytes > 0) out.reads.push_back(span);
  }
  void write(const Span& span) {
    if (span.there() && span.bytes > 0) out.writes.push_back(span);
  }
  void operator()(const RunBlock& run) {
    for (int64_t j = 0; j < run.micro_batches; ++j) one(of_micro_batch(run, j));
  }
  void one(const RunBlock& run) {
    const ProgramBlock& block = program.blocks[run.block];
    for (int c = run.first; c < run.last; ++c) {
      const BlockCall& call = block.calls[c];
      if (call.kind == BlockCall::Kind::wait) continue;
      const Node& node = block.graph.node(call.node);
      for (size_t i = 0; i < call.inputs; ++i)
        read(span_of(run, call.args[i], bytes_of(block.graph[node.inputs[i]])));
      if (call.kind == BlockCall::Kind::start) continue;  // its result belongs to the block until the wait
      for (size_t i = call.inputs; i < call.args.size(); ++i)
        write(span_of(run, call.args[i], bytes_of(block.graph[node.outputs[i - call.inputs]])));
    }
  }
  void operator()(const StartCollective& start) {
    read(start.from);
    write(start.to);
  }
  void operator()(const Wait&) {}
  void operator()(const Accumulate& add) {
    for (const auto& piece : add.pieces) read(piece.from);
    for (const Span& span : add.lefts) read(span);
    write(add.to);
  }
  void operator()(const SumTrees& sums) {
    for (const auto& tree : sums.trees) {
      for (const auto& source : tree.sources) read(source.at);
      if (!tree.stays()) write(tree.out);
      write(tree.row_squares);
    }
  }
  void operator()(const CopySpans& all) {
    for (const auto& copy : all.copies) {
      read(copy.from);
      write(copy.to);
    }
  }
  void operator()(const StartCopies& start) {
    for (const auto& copy : start.copies) {
      read(copy.from);
      write(copy.to);
    }
  }
  void operator()(const ZeroSpan& zero) { write(zero.at); }
  void operator()(const AddCounts& add) {
    read(add.totals);
    read(add.addend);
    write(add.totals);
  }
  void operator()(const UpdateTensors& update) {
    for (const auto& tensor : update.tensors) {
      for (const Span& span : tensor.inputs) read(span);
      read(tensor.ids), read(tensor.rows);
      for (const Span& span : {tensor.scale, tensor.scale_before, tensor.largest}) read(span);
      for (const Span& span : tensor.outputs) write(span);
      write(tensor.copy), write(tensor.largest);
    }
    for (const Span& span : update.gates) read(span);
    for (const Span& span : update.limits) read(span);
  }
  void operator()(const SumRows& sum) {
    read(sum.ids), read(sum.rows);
    write(sum.out_ids), write(sum.out_rows), write(sum.squares);
  }
  void operator()(const TakeRows& take) {
    read(take.table);
    for (const auto& piece : take.pieces) {
      read(piece.ids);
      write(piece.to);
    }
  }
  void operator()(const PutRows& put) {
    read(put.ids), read(put.rows), read(put.table);
    for (const Span& span : put.gates) read(span);
    for (const Span& span : put.limits) read(span);
    write(put.table);
  }
  void operator()(const SumSquares& sum) {
    for (const Span& span : sum.addends) read(span);
    write(sum.words);
  }
  void operator()(const NormOfWords& norm) {
    read(norm.words);
    write(norm.norm);
  }
  void operator()(const ChecksumSpans& checked) {
    for (const Span& span : checked.parts) read(span);
    read(checked.wanted);
    write(checked.sums);
  }
  void operator()(const ShowOutput& shown) { read(shown.at); }
};
}  // namespace

Span output_of(const ProgramBlock& block, const RunBlock& run, size_t output) {
  return span_of(run, block.outputs[output], bytes_of(block.graph[block.graph.outputs[output].value]));
}

RunBlock of_micro_batch(const RunBlock& run, int64_t j) {
  if (run.micro_batches == 1) return run;
  LS_CHECK(run.micro_batches > 1 && run.strides.size() == run.inputs.size() &&
               run.own.bytes % run.micro_batches == 0,
           "a run of ", run.micro_batches, " micro-batches in an arena of ", run.own.bytes, " bytes, with ",
           run.strides.size(), " strides of ", run.inputs.size(), " inputs");
  RunBlock out{
      run.block, run.first, run.last, run.inputs, run.own.part(j * run.own_stride(), run.own_stride()),
      run.shared};
  for (size_t i = 0; i < out.inputs.size(); ++i) out.inputs[i].offset += j * run.strides[i];
  return out;
}

Span span_of(const RunBlock& run, const BlockPlace& at, int64_t bytes) {
  const Span& base = at.base == BlockPlace::own_arena      ? run.own
                     : at.base == BlockPlace::shared_arena ? run.shared
                                                           : run.inputs[at.base];
  return base.there() ? base.part(at.offset, bytes) : Span{};
}

int64_t StartCopies::bytes() const {
  int64_t out = 0;
  for (const auto& copy : copies) out += copy.to.bytes;
  return out;
}

Span StepProgram::find(Region::Kind kind, const std::string& region) const {
  for (size_t r = 0; r < regions.size(); ++r)
    if (regions[r].kind == kind && regions[r].name == region) return whole(static_cast<int>(r));
  return {};
}

Access access_of(const StepProgram& program, const Instr& instr) {
  Finder finder{program, {}};
  std::visit(finder, instr.what);
  return std::move(finder.out);
}

StartCollective start_of(const ProgramBlock& block, const BlockCall& call, int64_t ranks) {
  const Node& node = block.graph.node(call.node);
  const Value& value = block.graph[node.inputs[0]];
  const int64_t count = numel(value.shape);
  const bool gather = node.op == ops::model_gather_start;
  LS_CHECK(gather || count % ranks == 0, count, " elements for ", ranks, " ranks");
  StartCollective out;
  out.verb = gather ? StartCollective::Verb::all_gather : StartCollective::Verb::all_to_all;
  out.along = node.attrs.word("mesh_dim");
  out.dtype = value.dtype;
  out.send.assign(ranks, gather ? count : count / ranks);
  out.receive = out.send;
  out.label = str(out.along, gather ? " gather " : " exchange ",
                  node.at.scope.empty() ? node.at.text() : node.at.scope);
  return out;
}

std::string_view name(Region::Kind kind) {
  static constexpr std::string_view names[] = {"state",   "input",   "arena", "value",
                                               "partial", "staging", "result"};
  return names[static_cast<size_t>(kind)];
}
std::string_view name(StartCollective::Verb verb) {
  static constexpr std::string_view names[] = {"all_gather",     "all_to_all", "all_reduce",
                                               "reduce_scatter", "send",       "recv"};
  return names[static_cast<size_t>(verb)];
}

int64_t sent_bytes(const StartCollective& start, int64_t members, int64_t self) {
  const auto size = static_cast<int64_t>(size_of(start.dtype));
  if (start.verb == StartCollective::Verb::all_reduce)
    return 2 * (start.send.at(0) * size / members * (members - 1) +
                start.send[0] * size % members * (members - 1) / members);
  int64_t elements = 0;
  for (size_t r = 0; r < start.send.size(); ++r)
    if (static_cast<int64_t>(r) != self) elements += start.send[r];
  return elements * size;
}

}  // namespace lockstep::compiler
