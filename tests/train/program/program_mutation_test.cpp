// Each instruction of small programs taken out, doubled, and moved to every other place: the program is
// refused in words, or computes and sends the same. What a program computes is told by symbols: each result
// is a number made of what it was computed from and how.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/program/check/verify.h"
#include "compiler/program/show/listing.h"
#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "launcher/trainer/dry_run.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {

using Symbol = uint64_t;
Symbol mixed(Symbol x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
class Digest {
 public:
  Digest& add(Symbol x) {
    value_ = mixed(value_ ^ mixed(x));
    return *this;
  }
  Digest& add(const std::string& text) { return add(std::hash<std::string>{}(text)); }
  Symbol value() const { return value_; }

 private:
  Symbol value_ = 1;
};

// Runs a program on symbols.
class Symbols {
 public:
  explicit Symbols(const StepProgram& program) : program_(program) {
    for (size_t r = 0; r < program.regions.size(); ++r)
      if (const Span whole = program.whole(static_cast<int>(r)); whole.bytes > 0)
        write(whole, Digest().add("initial").add(r).value());
    for (const auto* list : {&program.refresh, &program.instrs})
      for (const Instr& instr : *list) now_ = &instr, std::visit(*this, instr.what);
  }
  // What the step leaves behind and what it sends.
  std::map<std::string, Symbol> results() const {
    std::map<std::string, Symbol> out = sent_;
    for (size_t r = 0; r < program_.regions.size(); ++r)
      if (const auto& region = program_.regions[r];
          region.kind != Region::Kind::arena && region.kind != Region::Kind::partial &&
          region.kind != Region::Kind::staging && !region.name.starts_with("sums %"))  // squares of rows
        out[region.name] = read(program_.whole(static_cast<int>(r)));
    return out;
  }

  void operator()(const RunBlock& run) {
    for (int64_t j = 0; j < run.micro_batches; ++j) one(of_micro_batch(run, j));
  }
  void one(const RunBlock& run) {
    const ProgramBlock& block = program_.blocks[run.block];
    for (int c = run.first; c < run.last; ++c) {
      const BlockCall& call = block.calls[c];
      if (call.kind == BlockCall::Kind::wait) continue;
      const Node& node = block.graph.node(call.node);
      auto span = [&](size_t i, ValueId v) {
        const Value& value = block.graph[v];
        return span_of(run, call.args[i], numel(value.shape) * static_cast<int64_t>(size_of(value.dtype)));
      };
      Digest digest;
      digest.add("call").add(run.block).add(c);
      for (size_t i = 0; i < call.inputs; ++i) digest.add(read(span(i, node.inputs[i])));
      if (call.kind == BlockCall::Kind::start) {  // the result is typed by the wait
        for (const Node& wait : block.graph.nodes)
          if (wait.op == ops::model_wait && wait.inputs[0] == node.outputs[0])
            write(span(call.inputs, wait.outputs[0]), digest.value());
        continue;
      }
      for (size_t i = call.inputs; i < call.args.size(); ++i)
        write(span(i, node.outputs[i - call.inputs]), digest.add(i).value());
    }
  }
  void operator()(const StartCollective& start) {
    Digest digest;
    digest.add(std::string(name(start.verb))).add(start.label).add(read(start.from));
    for (int64_t count : start.send) digest.add(count);
    Symbol& all = sent_["sent along " + start.along];
    all = Digest().add(all).add(digest.value()).value();
    write(start.to, Digest().add(all).add("received").value());
  }
  void operator()(const Wait&) {}
  void operator()(const Accumulate& add) {
    Digest digest;
    for (const auto& piece : add.pieces) digest.add(piece.at).add(read(piece.from));
    for (const Span& left : add.lefts) digest.add(read(left));
    write(add.to, digest.value());
  }
  void operator()(const SumTrees& sums) {
    for (const auto& tree : sums.trees) {
      Digest digest;
      for (const auto& source : tree.sources) digest.add(read(source.at));
      for (int merges : tree.merges) digest.add(merges);
      const Span out = tree.sum();
      if (tree.sources.size() > 1)
        write(out, digest.value());
      else if (tree.sources.size() == 1)  // the sum of one addend is the addend
        copy(out, tree.sources[0].at);
      write(tree.row_squares, digest.add("squares").value());
    }
  }
  void operator()(const CopySpans& all) {
    for (const auto& [to, from] : all.copies) copy(to, from);
  }
  void operator()(const StartCopies& start) {
    for (const auto& [to, from] : start.copies) copy(to, from);
  }
  void operator()(const ZeroSpan& zero) {
    for (int64_t at = 0; at < zero.at.bytes; at += 8)
      write(zero.at.part(at, std::min<int64_t>(8, zero.at.bytes - at)), 0);
  }
  void operator()(const AddCounts& add) {
    for (int64_t at = 0; at < add.totals.bytes; at += 8) {
      const Span cell = add.totals.part(at, 8);
      write(cell, read(cell) + mixed(read(add.addend.part(at, 8))));  // in any order
    }
  }
  void operator()(const UpdateTensors& update) {
    Digest gates;
    for (const Span& gate : update.gates) gates.add(read(gate));
    for (const auto& tensor : update.tensors) {
      Digest digest = gates;
      for (const Span& input : tensor.inputs) digest.add(read(input));
      for (const Span& span : {tensor.ids, tensor.rows, tensor.scale, tensor.scale_before, tensor.largest})
        digest.add(read(span));
      for (const Span& output : tensor.outputs) write(output, digest.add("out").value());
      write(tensor.copy, digest.add("copy").value());
      write(tensor.largest, digest.add("largest").value());
    }
  }
  template <class Other>
  void operator()(const Other&) {
    Digest digest;
    digest.add(now_->what.index());
    const Access access = access_of(program_, *now_);
    for (const Span& span : access.reads) digest.add(read(span));
    for (const Span& span : access.writes) write(span, digest.add("out").value());
  }

 private:
  struct Piece {
    int64_t bytes = 0, at = 0;  // at: in what was written
    Symbol value = 0;
  };
  void cut(std::map<int64_t, Piece>& in, int64_t where) {
    auto next = in.lower_bound(where);
    if (next == in.begin() || (next != in.end() && next->first == where)) return;
    auto& [from, piece] = *std::prev(next);
    if (from + piece.bytes <= where) return;
    const int64_t left = where - from;
    const Piece right{piece.bytes - left, piece.at + left, piece.value};
    piece.bytes = left;
    in.emplace(where, right);
  }
  std::vector<Piece> pieces_of(const Span& span) const {
    std::vector<Piece> out;
    if (!span.there() || span.bytes <= 0) return out;
    const auto& in = memory_.at(span.region);
    for (auto i = std::prev(in.upper_bound(span.offset));
         i != in.end() && i->first < span.offset + span.bytes; ++i) {
      const int64_t from = std::max(i->first, span.offset),
                    to = std::min(i->first + i->second.bytes, span.offset + span.bytes);
      if (to > from) out.push_back({to - from, i->second.at + from - i->first, i->second.value});
    }
    return out;
  }
  Symbol read(const Span& span) const {
    const auto pieces = pieces_of(span);
    if (pieces.size() == 1 && pieces[0].at == 0) return pieces[0].value;
    Digest digest;
    Symbol value = 0;
    int64_t end = -1;
    for (const Piece& piece : pieces) {  // what lies behind one another as it was written is one
      if (piece.value != value || piece.at != end) digest.add(piece.value).add(piece.at);
      value = piece.value, end = piece.at + piece.bytes;
    }
    return digest.value();
  }
  void put(const Span& span, const Piece& piece) {
    if (!span.there() || span.bytes <= 0) return;
    auto& in = memory_[span.region];
    cut(in, span.offset), cut(in, span.offset + span.bytes);
    in.erase(in.lower_bound(span.offset), in.lower_bound(span.offset + span.bytes));
    in[span.offset] = piece;
  }
  void copy(const Span& to, const Span& from) {
    int64_t at = to.offset;
    for (const Piece& piece : pieces_of(from)) put({to.region, at, piece.bytes}, piece), at += piece.bytes;
  }
  void write(const Span& span, Symbol value) { put(span, {span.bytes, 0, value}); }

  const StepProgram& program_;
  const Instr* now_ = nullptr;
  std::map<int, std::map<int64_t, Piece>> memory_;
  std::map<std::string, Symbol> sent_;
};

// Two sparse tables of a click model.
constexpr const char* kSparse =
    R"("model": {"kind": "dlrm", "dense": 3, "rows": [5, 7], "width": 4, "bottom": [4],
    "top": [4], "sparse": true}, "data": {"paths": ["dense.npy"], "kind": "arrays"}, "optim": {"kind": "sparse_adam"})";
constexpr const char* kGpt =
    R"("model": {"kind": "gpt", "vocab": 16, "context": 4, "width": 8, "depth": 1, "heads": 2},
    "data": {"paths": ["a.txt"], "kind": "tokens"})";
constexpr const char* kFloat8 =
    R"("model": {"kind": "gpt", "vocab": 16, "context": 16, "width": 16, "depth": 1, "heads": 2},
    "data": {"paths": ["a.txt"], "kind": "tokens"})";
constexpr const char* kDelayed = R"(, "precision": "float8", "float8": {"recipe": "delayed"})";

std::vector<StepProgram> programs_of(const std::string& model, const std::string& mesh, int64_t ranks,
                                     int64_t micro_batches, const std::string& more = "",
                                     const std::string& compile = "", const std::string& device = "cpu") {
  const RunConfig config =
      parse_config(str(R"({"name": "small", )", model, R"(, "train": {"device": ")", device, "\"", more,
                       R"(}, "compile": {"bucket_bytes": 2000)", compile,
                       R"(}, "batch": {"micro": 1, "global": )", micro_batches, R"(}, "mesh": )", mesh, "}"),
                   "small.json");
  const PaperRun run(config, ranks, cpu_target());
  std::vector<StepProgram> out;
  for (int64_t rank = 0; rank < ranks; ++rank) out.push_back(program_of(run.step, run.words, rank));
  return out;
}

struct Mutations {
  Mesh mesh;
  std::vector<StepProgram> programs;
  size_t rank = 0;
  int refused = 0, harmless = 0;
  std::map<std::string, Symbol> before = {};
  std::set<std::string> words = {};  // of refusals, behind the rank

  std::string refusal() {
    try {
      verify(programs[rank]);
      verify_together(programs, mesh, 0);
    } catch (const InternalError& error) { return error.what(); }
    return "";
  }
  void judge(const std::string& what) {
    const std::string said = refusal();
    said.empty() ? ++harmless : ++refused;
    if (!said.empty()) return void(words.insert(said));
    for (const auto& [name, symbol] : Symbols(programs[rank]).results())
      if (before.at(name) != symbol) {
        ADD_FAILURE() << "another value in " << name << " and no refusal: " << what;
        return;
      }
  }
  void run() {
    StepProgram& program = programs[rank];
    ASSERT_EQ(refusal(), "");
    before = Symbols(program).results();
    const std::vector<Instr> whole = program.instrs;
    for (size_t i = 0; i < whole.size(); ++i) {
      const std::string name = str("\"", text(program, whole[i]), "\" (", i, ")");
      auto& list = program.instrs;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      judge("without " + name);
      list.insert(list.begin(), whole[i]);  // and from place to place
      for (size_t to = 0; to < whole.size(); ++to) {
        if (to != i) judge(str(name, " at ", to));
        if (to + 1 < whole.size()) std::swap(list[to], list[to + 1]);
      }
      list = whole;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), whole[i]);
      judge("twice " + name);
      list = whole;
    }
    const size_t count = whole.size();
    std::cout << count << " instructions: " << refused << " mutants refused, " << harmless << " harmless\n";
    EXPECT_GT(refused, static_cast<int>(4 * count));
  }
};

TEST(ProgramMutations, AreRefusedOrHarmless) {
  std::set<std::string> said;
  for (const auto& [name, mesh, micro_batches, more] :
       std::vector<std::tuple<std::string, Mesh, int64_t, std::string>>{
           {"ddp", {{2}, {"dp_replicate"}}, 4, ""},
           {"ddp bf16", {{2}, {"dp_replicate"}}, 2, R"(, "precision": "bf16")"},
           {"one micro-batch bf16", {{1}, {"dp_replicate"}}, 1, R"(, "precision": "bf16")"},
           {"together bf16", {{2}, {"dp_replicate"}}, 4, R"(, "precision": "bf16")"},
           {"zero 3", {{2}, {"dp_shard"}}, 3, ""},
           {"hsdp", {{2, 2}, {"dp_replicate", "dp_shard"}}, 4, ""},
           {"tp", {{2}, {"tp"}}, 2, ""},
           {"dp x tp", {{2, 2}, {"dp_replicate", "tp"}}, 2, ""},
           {"muon tp", {{2}, {"tp"}}, 1, ""},
           {"adafactor tp", {{2}, {"tp"}}, 1, ""},
           {"offload", {{1}, {"dp_replicate"}}, 1, ""},
           {"offload zero 3", {{2}, {"dp_shard"}}, 2, ""},
           {"float8", {{1}, {"dp_replicate"}}, 1, kDelayed},
           {"float8 zero 3", {{2}, {"dp_shard"}}, 2, kDelayed},
           {"sparse", {{1}, {"dp_replicate"}}, 2, ""},
           {"sparse ddp", {{2}, {"dp_replicate"}}, 3, ""},
           {"sparse zero 3", {{2}, {"dp_shard"}}, 3, ""},
           {"sparse hsdp", {{2, 3}, {"dp_replicate", "dp_shard"}}, 5, ""}}) {
    SCOPED_TRACE(name);
    const std::string gather = name == "zero 3" ? R"(, "gather": "micro_batch")" : "";
    std::vector<std::string> dims;
    for (const auto& dim : mesh.dim_names) dims.push_back("\"" + dim + "\"");
    const std::string kind = name.substr(0, name.find(' '));
    const std::string optim =
        kind == "offload" ? R"(, "optim": {"offload": true})" : str(R"(, "optim": {"kind": ")", kind, "\"}");
    const bool of_optim = kind == "offload" || kind == "muon" || kind == "adafactor";
    const std::string model = kind == "sparse" ? kSparse : kind == "float8" ? kFloat8 : kGpt;
    const std::string place =
        str("{\"shape\": ", mesh.shape, ", \"dim_names\": [", join(dims, ", "), "]", gather, "}");
    Mutations all{mesh, programs_of(of_optim ? model + optim : model, place, mesh.size(), micro_batches, more,
                                    kind == "together" ? R"(, "together": 2)" : "")};
    all.rank = all.programs.size() - 1;
    const std::string listed = listing(all.programs[all.rank]);
    EXPECT_EQ(listing(parse_program(listed)), listed);
    all.run();
    said.insert(all.words.begin(), all.words.end());
  }
  for (const char* words : {"nothing waits for flight ",
                            " on are never run: run ",
                            "nothing reads what ",
                            " starts twice: start ",
                            " is not in progress: wait ",
                            " from before its update: copy ",
                            "updates token.weight twice: update ",
                            "updates emb_l.0.weight twice: replace ",
                            "nothing updates blocks.0.",
                            "nothing replaces rows of emb_l.1.weight",
                            " is still writing it: ",
                            " is under way: ",
                            " which nothing wrote: ",
                            " which was taken already: ",
                            " which was read as a result already: ",
                            " which is no addend: ",
                            " which is a finished sum: ",
                            " which is summed over ranks already: ",
                            "nothing adds to a part of counts and votes",
                            "nothing writes a part of ",
                            " after its update: ",
                            " gathers blocks.0.",
                            " of which nothing read what it held: ",
                            "runs a second time: run ",
                            " are due: run ",
                            " weights gathered: run ",
                            "starts ",
                            " from before its update: start copies ",
                            " holds twice: update ",
                            "finds the largest of ",
                            " of the seed is yet to make: run "})
    EXPECT_TRUE(std::any_of(said.begin(), said.end(), [&](const std::string& text) {
      return text.find(words) != std::string::npos;
    })) << words;
}

// Activations wait on the host: each copy, each wait, and each run between them.
class ValuesThatWait : public testing::TestWithParam<std::string> {};
TEST_P(ValuesThatWait, MutantsAreRefusedOrHarmless) {
  const bool cpu = GetParam() == "cpu";
  const std::string kDeeper =
      str(R"("model": {"kind": "gpt", "vocab": 16, "context": 16, "width": 16, "depth": )", cpu ? 2 : 3,
          R"(, "heads": 2}, "data": {"paths": ["a.txt"], "kind": "tokens"})");
  const std::string mesh = R"({"shape": [1], "dim_names": ["dp_replicate"]})";
  auto programs = [&](const std::string& compile) {
    return programs_of(kDeeper, mesh, 1, 2, "", R"(, "tp_pieces": 1)" + compile, GetParam());
  };
  // Below what recomputing alone can do, so that something is copied whatever the rates.
  const int64_t least = held_bytes(programs(R"(, "memory_budget": "full")")[0]).arena;
  Mutations all{
      {{1}, {"dp_replicate"}},
      programs(str(R"(, "memory_budget": ")", least * 15 / 16, R"(", "offload_activations": true)"))};
  EXPECT_FALSE(all.programs[0].blocks[kBodyBlock].away.empty());
  all.run();
  std::vector<const char*> expected{" is not gone: run ",
                                    "\" starts where activation 0 has left: start copies ",
                                    "\" starts where activation 0 is not gone: start copies "};
  // By the clocks of a GPU a value comes some calls before it is read, by those of the CPU right before.
  expected.push_back(cpu ? " is not back: run " : " starts before call ");
  for (const char* words : expected)
    EXPECT_TRUE(std::any_of(all.words.begin(), all.words.end(), [&](const std::string& text) {
      return text.find(words) != std::string::npos;
    })) << words;
}
INSTANTIATE_TEST_SUITE_P(By, ValuesThatWait, testing::Values("cuda", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep
