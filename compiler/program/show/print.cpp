// Writes a program as lines, and folds repetitions.
#include "compiler/program/show/print.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <regex>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

std::string_view kind_of(const Instr& instr) {
  static constexpr std::string_view names[] = {
      "run",  "start",      "wait",     "accumulate",  "sum trees",   "copy",
      "zero", "add counts", "update",   "sum squares", "norm",        "checksums",
      "show", "sum rows",   "put rows", "take rows",   "start copies"};
  return names[instr.what.index()];
}

std::string label_of(const StepProgram& program, int flight) {
  for (const Instr& instr : program.instrs) {
    if (const auto* start = std::get_if<StartCollective>(&instr.what); start && start->flight == flight)
      return start->label;
    if (const auto* start = std::get_if<StartCopies>(&instr.what); start && start->flight == flight)
      return start->label;
  }
  return "?";
}

std::vector<std::string> flight_labels(const StepProgram& program) {
  std::vector<std::string> out(static_cast<size_t>(program.flights), "?");
  for (const Instr& instr : program.instrs) {
    if (const auto* start = std::get_if<StartCollective>(&instr.what)) out.at(start->flight) = start->label;
    if (const auto* start = std::get_if<StartCopies>(&instr.what)) out.at(start->flight) = start->label;
  }
  return out;
}

namespace {
std::string amount(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string counted(size_t count, const std::string& what) {
  return str(count, " ", what, count == 1 ? "" : "s");
}

std::string and_more(size_t count) { return count == 1 ? std::string() : str(", and ", count - 1, " more"); }

constexpr const char* kUnlessGated = "; not where the loss or a norm is not finite, or beyond its limit";

struct InstrText {
  const StepProgram& program;

  std::string at(const Span& span) const {
    if (!span.there()) return "nothing";
    const Region& region = program.regions[span.region];
    if (span.offset == 0 && span.bytes == region.bytes) return str("[", region.name, "]");
    return str("[", region.name, " + ", span.offset, ", ", span.bytes, " bytes]");
  }
  std::string operator()(const RunBlock& run) const {
    const ProgramBlock& block = program.blocks[run.block];
    const bool all = run.first == 0 && run.last == static_cast<int>(block.calls.size());
    return str("run ", program.block_names[run.block],
               run.micro_batches > 1 ? str(" for ", run.micro_batches, " micro-batches") : std::string(),
               all ? std::string() : str(" calls ", run.first, " to ", run.last - 1));
  }
  std::string operator()(const StartCollective& start) const {
    auto all = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    const bool gather = start.verb == StartCollective::Verb::all_gather;
    const int64_t sent = gather && !start.send.empty() ? start.send[0] : all(start.send);
    return str("start ", name(start.verb), " \"", start.label, "\" along ", start.along, ": ", sent, " ",
               name(start.dtype), " from ", at(start.from),
               start.receive.empty() ? std::string() : str(", ", all(start.receive)), " to ", at(start.to),
               start.more ? ", with the next" : "");
  }
  std::string operator()(const Wait& wait) const {
    return str("wait \"", label_of(program, wait.flight), "\"");
  }
  std::string operator()(const Accumulate& add) const {
    int64_t bytes = 0;
    for (const auto& piece : add.pieces) bytes += piece.from.bytes;
    std::string out = str("add gradients, ", amount(bytes), " in ", counted(add.pieces.size(), "piece"));
    for (const Span& left : add.lefts) out += ", to " + at(left);
    return out + ", into " + at(add.to);
  }
  std::string operator()(const SumTrees& sums) const {
    const auto& first = sums.trees.at(0);
    std::vector<std::string> addends;
    for (const auto& source : first.sources) addends.push_back(at(source.at));
    return str("sum ", counted(sums.trees.size(), "tensor"),
               first.row_squares.there() ? " and square their rows: " : ": ", join(addends, " + "),
               first.out == first.sources.at(0).at ? std::string(" in place") : " into " + at(first.out),
               and_more(sums.trees.size()));
  }
  std::string operator()(const CopySpans& all) const {
    int64_t bytes = 0;
    size_t pieces = 0;
    const CopySpans::Copy* first = nullptr;
    for (const auto& copy : all.copies) {
      if (copy.to.bytes == 0) continue;  // a rank without rows of a tensor
      bytes += copy.to.bytes, ++pieces;
      if (!first) first = &copy;
    }
    if (!first) return "copy nothing";
    return str("copy ", amount(bytes), pieces == 1 ? "" : str(" in ", pieces, " pieces, the first"), " from ",
               at(first->from), " to ", at(first->to));
  }
  std::string operator()(const StartCopies& start) const {
    const std::string pieces = counted(start.copies.size(), "piece");
    return str("start copies \"", start.label, "\" ", start.to_host ? "to the host" : "to the device", ": ",
               amount(start.bytes()), " in ", pieces, ", the first from ", at(start.copies.at(0).from),
               " to ", at(start.copies[0].to));
  }
  std::string operator()(const ZeroSpan& zero) const { return "zero " + at(zero.at); }
  std::string operator()(const AddCounts& add) const {
    return str("add integers ", at(add.addend), " to ", at(add.totals));
  }
  std::string operator()(const UpdateTensors& update) const {
    const auto& first = update.tensors.at(0);
    const auto halves =
        std::count_if(update.tensors.begin(), update.tensors.end(),
                      [](const UpdateTensors::Tensor& tensor) { return !tensor.halves.empty(); });
    return str(update.gates.empty() ? "convert " : "update ", counted(update.tensors.size(), "tensor"), ": ",
               at(first.outputs.empty() ? first.copy : first.outputs[0]),
               first.copy.there() && !first.outputs.empty() ? str(", rounded into ", at(first.copy)) : "",
               first.scale.there() ? str(" by the scale ", at(first.scale)) : "",
               first.by_rows < 0 ? "" : str(", by the rows ", at(first.rows), " of ", at(first.ids)),
               and_more(update.tensors.size()),
               halves ? str(", of them ", halves, " by gradients in bf16") : std::string(),
               update.gates.empty() ? "" : kUnlessGated);
  }
  std::string operator()(const SumRows& sum) const {
    return str("add rows of equal ids of ", at(sum.rows), ", ", sum.ids.bytes / 4, " ids below ",
               sum.table_rows,
               sum.owned < sum.table_rows ? str(", of which it owns ", sum.owned, " from ", sum.first, " on")
                                          : std::string(),
               ", into ", at(sum.out_rows), " and ", at(sum.out_ids));
  }
  std::string operator()(const TakeRows& take) const {
    int64_t ids = 0;
    for (const auto& piece : take.pieces) ids += piece.ids.bytes / 4;
    return str("take rows of ", at(take.table), " by ", ids, " ids, zeros for rows of other ranks, into ",
               at(take.pieces.at(0).to), and_more(take.pieces.size()));
  }
  std::string operator()(const PutRows& put) const {
    return str("replace up to ", put.ids.bytes / 4, " rows of ", at(put.table), " by ", at(put.rows),
               kUnlessGated);
  }
  std::string operator()(const SumSquares& sum) const {
    return str("add up the squares of ", counted(sum.addends.size(), "tensor"),
               " exactly, as integers, into ", at(sum.words));
  }
  std::string operator()(const NormOfWords& norm) const {
    return str("norm of ", at(norm.words), " into ", at(norm.norm));
  }
  std::string operator()(const ChecksumSpans& checked) const {
    return str("checksums of ", counted(checked.parts.size(), "tensor"), " that other ranks hold, too, into ",
               at(checked.sums), ", in the steps of verify.replicas_every");
  }
  std::string operator()(const ShowOutput& shown) const {
    return str("show output ", shown.output, " of the body, ", at(shown.at));
  }
};

// "blocks.3" for "blocks.3.attn.qkv"; "" outside a numbered layer.
std::string layer_of(const std::string& scope) {
  static const std::regex layer(R"(^(.*?\.\d+)(\.|$))");
  std::smatch found;
  return std::regex_search(scope, found, layer) ? found[1].str() : "";
}

// Lines under a title. Lines of an earlier section are not repeated.
struct Section {
  std::string title;
  std::vector<std::string> lines;
};
std::string folded(const std::vector<Section>& sections) {
  std::map<std::vector<std::string>, std::string> said;  // lines -> the title of their first section
  std::string out;
  for (size_t s = 0; s < sections.size();) {
    const auto& [title, lines] = sections[s];
    const auto [first, fresh] = said.emplace(lines, title.substr(0, title.find(',')));
    if (fresh || lines.size() < 2) {
      out += str("  ", title, "\n");
      for (const auto& line : lines) out += str("    ", line, "\n");
      ++s;
      continue;
    }
    size_t last = s;
    while (last + 1 < sections.size() && sections[last + 1].lines == lines &&
           sections[last + 1].title.find(',') == std::string::npos)
      ++last;
    out += str("  ", title, last > s ? str(" to ", sections[last].title) : "",
               title.find(',') == std::string::npos ? ": as " : ", else as ", first->second, "\n");
    s = last + 1;
  }
  return out;
}

// The place of a micro-batch in the tree is the same for all buckets, so it is written once, in the title.
void lift_sums(Section& section) {
  static const std::regex names(R"((to|into) \[(exchange \d+) sum (\d+)\])");
  std::string common;
  std::vector<std::string> lines;
  for (const auto& line : section.lines) {
    lines.push_back(line);
    if (!line.starts_with("add gradients")) continue;
    std::string sum = "gradients", bucket;
    for (std::sregex_iterator at(line.begin(), line.end(), names), end; at != end; ++at) {
      const std::string partial = "sum " + (*at)[3].str();
      bucket = (*at)[2].str();
      if ((*at)[1] == "into")
        sum = str(partial, " = ", sum);
      else
        sum = str(partial, " + ", sum == "gradients" ? sum : str("(", sum, ")"));
    }
    if (bucket.empty() || (!common.empty() && sum != common)) return;
    common = sum;
    const size_t amount = std::string_view("add gradients").size();
    lines.back() = str("add gradients of ", bucket,
                       line.substr(amount, line.find(" piece") +
                                               (line.find(" pieces") == std::string::npos ? 6 : 7) - amount));
  }
  if (common.empty()) return;
  section.title += ", " + common;
  section.lines = std::move(lines);
}

// The result types of a call of constants or conversions: only they distinguish such kernels.
std::string kinds_of(const ProgramBlock& block, const BlockCall& call) {
  if (!call.what.empty() && call.what != "convert") return "";
  std::vector<std::string> made;
  for (ValueId v : block.graph.node(call.node).outputs)
    made.push_back(shape_text(block.graph[v].dtype, block.graph[v].shape));
  return " " + join(made, ", ");
}

std::string block_text(const StepProgram& program, size_t b) {
  const ProgramBlock& block = program.blocks[b];
  std::string out =
      str("phase ", program.block_names[b], ": ", counted(block.calls.size(), "call"), ", arena ",
          amount(block.own_bytes),
          block.shared_bytes ? str(" and, shared by micro-batches, ", amount(block.shared_bytes)) : "", "\n");
  std::vector<Section> sections;
  std::string layer = "?";
  for (size_t c = 0; c < block.calls.size(); ++c) {
    const BlockCall& call = block.calls[c];
    const SourceLine& at = block.graph.node(call.node).at;
    // A call that fusion made from nodes of several layers has no layer of its own.
    const std::string of = at.scope.empty() && !sections.empty() ? layer : layer_of(at.scope);
    if (of != layer || sections.empty()) {
      layer = of;
      sections.push_back({str(layer.empty() ? "outside of layers" : layer, " (from call ", c, ")"), {}});
    }
    std::string where =
        at.file.empty() ? "" : str(at.file.substr(at.file.find_last_of('/') + 1), ":", at.line);
    if (!at.scope.empty()) where += str(" ", layer.empty() ? at.scope : "~" + at.scope.substr(layer.size()));
    sections.back().lines.push_back(str(
        call.family, " ", call.what.empty() ? "constants" : call.what, kinds_of(block, call),
        call.workspace_bytes ? str(", workspace ", amount(static_cast<int64_t>(call.workspace_bytes))) : "",
        where.empty() ? "" : " @ " + where));
  }
  return out + folded(sections);
}

std::string instrs_text(const StepProgram& program, const std::vector<Instr>& instrs) {
  static const std::regex round(R"( round \d+)");
  std::vector<Section> sections;
  int last = -2;
  for (const Instr& instr : instrs) {
    if (instr.micro_batch != last) {
      last = instr.micro_batch;
      sections.push_back({last < 0 ? "once" : str("micro-batch ", last), {}});
    }
    sections.back().lines.push_back(std::regex_replace(text(program, instr), round, " round"));
  }
  for (Section& section : sections) lift_sums(section);
  return folded(sections);
}
}  // namespace

std::string text(const StepProgram& program, const Instr& instr) {
  return std::visit(InstrText{program}, instr.what);
}

namespace {
constexpr const char* kLegend = R"(

How to read it. [NAME + OFFSET, BYTES] is a stretch of memory; [NAME] all of it. A start begins a collective,
its wait ends it. "exchange N" sends bucket N of the gradients, or sums of it, to the owners of their rows; the
sum of the losses rides in one of them, to rank 0. "gather N" brings new rows, and the loss, to everybody; both
count on their own. "moments N" brings moments that lie on the host, "moments N back" returns them; "activation
N" goes to wait on the host, "activation N back" comes to be read again. In the bucket of an exchange the rows
of other ranks come first, in their order, and this rank's last. Gradients are added in pieces, one per tensor
and owner. "count" sums token counts, votes to stop, and a word about replicas (0 over all ranks, where the
checksums of the last compared step were alike), each an i64. "and N more": the same for N further tensors.
seed: 1 / count, with which backward begins. tail N: small arithmetic on whole values, as the mean loss and
the clipping factor. maxima, cast, scales: of weights that are read in float8. Calls are those of the phase's
list above. ~ is the layer above. Blocks and rows of a library call: the shares of threads; chunk: how many
products are added before they join the sum.

memory (arena: what phases compute; value: what outlives a phase; partial: sums of gradients, own and
received; staging: what is packed to travel)
)";
}  // namespace

std::string print(const StepProgram& program) {
  std::vector<int> mine;
  for (const Instr& instr : program.instrs)
    if (instr.micro_batch >= 0) mine.push_back(instr.micro_batch);
  std::string out = str("program of rank ", program.rank, ", mesh ", program.mesh, ": ",
                        program.micro_batches, program.micro_batches == 1 ? " micro-batch" : " micro-batches",
                        " over all ranks, in ", counted(program.lanes, "lane"));
  if (!mine.empty())
    out += str("; this rank's are from ", *std::min_element(mine.begin(), mine.end()), " to ",
               *std::max_element(mine.begin(), mine.end()));
  out += kLegend;
  std::map<std::pair<Region::Kind, bool>, std::pair<int64_t, int64_t>> held;
  for (const Region& region : program.regions) {
    auto& [count, bytes] = held[{region.kind, region.on_host}];
    ++count, bytes += region.bytes;
  }
  for (const auto& [kind, both] : held)
    out += str("  ", name(kind.first), kind.second ? " on the host: " : ": ", both.first,
               both.first == 1 ? " region, " : " regions, ", amount(both.second), "\n");
  for (size_t b = 0; b < program.blocks.size(); ++b)
    if (b < kCopiesBlock || b >= kTailBlocks || !program.blocks[b].calls.empty())
      out += "\n" + block_text(program, b);
  if (!program.refresh.empty())
    out += str("\nbefore the first step, and after somebody else wrote the state\n",
               instrs_text(program, program.refresh));
  return out + str("\neach step, in order\n", instrs_text(program, program.instrs));
}

}  // namespace lockstep::compiler
