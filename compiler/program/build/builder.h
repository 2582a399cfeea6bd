// StepBuilder: makes the instructions of a step in order: head, counts, micro-batches by a policy, tail.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/build/held_rows.h"
#include "compiler/program/build/kept_gradients.h"
#include "compiler/program/build/step_blocks.h"

namespace lockstep::compiler {

inline constexpr int64_t kWord = 4;  // bytes of an id, and of an element of a table's rows
inline Span words(const Span& base, int64_t at, int64_t count) {
  return base.part(at * kWord, count * kWord);
}
inline int64_t size_of_value(const Value& value) { return static_cast<int64_t>(size_of(value.dtype)); }

class StepBuilder {
  using Kind = Region::Kind;
  using Verb = StartCollective::Verb;

 public:
  StepBuilder(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank);

  StepProgram build();
  StepProgram build_inspection();
  StepProgram build_recomputation();

 private:
  struct Arenas {
    std::vector<Span> own;  // per micro-batch that runs at once
    Span shared;
    std::vector<Span> on_host;  // like `own`; of values that wait in host memory
  };

  void inspect();
  void add_block(std::string name, ProgramBlock block);
  const ProgramBlock& block(int b) const { return program_.blocks[b]; }

  void declare_inputs();
  void find_replicas();
  void name_outputs();

  // How many of the rank's micro-batches run as one: a divisor of its slots, at most the requested number.
  int64_t find_together() const;
  bool can_run_together() const;
  // Places of the inputs of a phase; for a micro-batch, its batch fields and its sample number.
  std::vector<Span> inputs_of(const Phase& phase, int64_t slot) const;
  std::vector<int64_t> strides_of(const Phase& phase) const;  // bytes from one slot to the next
  // The calls [first, last) of a block; `turn`: the number of its arena.
  void run(int b, const std::vector<Span>& inputs, int first, int last, int64_t turn = 0);
  void run_all(int b, const std::vector<Span>& inputs);
  RunBlock run_of(int b, const std::vector<Span>& inputs, int first, int last, int64_t turn) const;
  Span output_of(int b, size_t o, const std::vector<Span>& inputs, int64_t turn = 0) const;
  int64_t micro_batch(int64_t slot) const { return sum_.lanes.micro_batch(sum_.lanes.rank, slot); }

  int64_t bytes_of(ValueId v) const { return held_.of(whole_[v]).count * size_of_value(whole_[v]); }
  int64_t ranks_of(const Node& start) const { return held_.size(start.attrs.word("mesh_dim")); }
  const Node& start_of(const Node& wait) const { return whole_.producer(wait.inputs[0]); }
  bool ends_gather(const Node& node) const;
  std::string state_input(ValueId v) const;
  std::string state_output(ValueId v) const;
  void own(ValueId v, const std::string& name, int64_t least = 0);  // a region of at least `least` elements

  // Of a gather: the tensors that no phase gathers for itself.
  std::vector<size_t> tensors_of(const Node& start) const;
  void prepare_head();
  void prepare_head(const Node& node);
  // Whether a sum over lanes replaces one of its addends; only if this rank has rows of it.
  bool in_place(const Node& node, ValueId v) const;
  void prepare(const Node& node);
  void make_buckets();
  void place_row_squares();
  void make_rows();
  void make_fetches();

  void round_weights();
  void head();
  void cast_own_rows();
  void prepare_rounding(bool of_step);
  void round_for_float8(UpdateTensors::Tensor& tensor, const std::string& state, bool gated) const;
  void counts();
  // Rows of sparse tables for micro-batches. Their ids come from count. Rows of split tables come from their
  // owners, for all micro-batches at once; rows of whole tables are copied before each body.
  void keep_ids(int64_t slot, int64_t before, const std::vector<Span>& inputs);
  void fetch_rows();
  void gather_ids();
  void take_owned();
  Span ids_at(const Phases::Fetch& fetch, int64_t slot) const;
  Span rows_at(size_t fetch, int64_t slot) const;
  void bring_rows(int64_t slot, int64_t arena, bool idle);
  void all_reduce(const std::string& along, Span at, const std::string& label);
  ValueId summed_count(NodeId count) const;

  // A micro-batch that runs (a turn), or several that run together from this slot on.
  struct Turn {
    int64_t slot = 0, arena = 0;
    bool idle = false;
    std::vector<Span> inputs;
    int reached = 0;                             // calls that have run
    size_t group = 0;                            // the next to become ready
    std::vector<int> leaving = {}, coming = {};  // flights (operations in progress), as in ProgramBlock::away
  };
  // Runs calls up to `end`; adds each bucket's gradients when they are ready.
  void advance(Turn& turn, int end);
  void add(const Turn& turn, size_t g);
  void add_rows(const Turn& turn, size_t r);
  void answer(const Turn& turn, size_t g);  // its checksums

  void bodies();
  bool by_layer() const { return plan_.options.gather == GatherWhen::layers && !inspects_; }
  Turn turn_of(int64_t slot, int64_t arena = 0);
  // Policies: one micro-batch after another; layer by layer over all of them; each with its own gathers.
  void accumulate();
  void by_layers();
  void by_weights(std::vector<Turn> turns);
  // Progress of a block's calls, in stretches: each runs after the gathers of the weights that it reads.
  struct Stretches {
    int block = 0;
    int64_t micro = -1;
    int from = 0;     // the next call
    size_t next = 0;  // the bucket to wait for next
    std::vector<std::vector<int>> flights = {};
  };
  Stretches begin_stretches(int b, int64_t micro);
  void run_to(Stretches& at, int end, const std::function<void(int, int)>& run_calls);
  void behind_weights(int b, int64_t micro, const std::function<void(int, int)>& run_calls);
  // The seed overlaps with the first micro-batch: each of its stretches runs before the first call that reads
  // its results.
  void begin_seed();
  bool seed_runs_beside() const;
  void find_needs();
  void seed_to(int call);
  void run_body(Turn& turn, int from, int to);
  // Runs the body's calls together with the copies of values that wait in host memory.
  void run_beside_copies(Turn& turn, int from, int to);
  void copies_before(Turn& turn, int call);
  int start_copy(const Turn& turn, size_t value, bool to_host);
  std::vector<int> gather_weights(int b, size_t bucket);

  void tail();
  void flush_sums();
  void flush_updates();

  // Writes a node of head or tail, by its op.
  void node(NodeId n);
  void local_rows(const Node& node);
  bool meets_pending(const UpdateTensors::Tensor& tensor) const;
  void update(NodeId n, const Node& node);
  void gates_of(const Node& node, std::vector<Span>& gates, std::vector<Span>& limits);
  void lane_sum(const Node& node);
  void start_rows(const Node& node);
  void wait_for_rows(const Node& node);
  void sum_rows(const Node& node);
  void update_by_rows(const Node& spread, int input, UpdateTensors::Tensor& tensor) const;
  void take_rows(const Node& node);
  void put_rows(const Node& node);
  void norm_limbs(const Node& node);
  bool counted_elsewhere(const Node& norm, size_t input) const;
  void sum_in_place(const Node& node);
  void start_gather(const Node& node);
  void wait(const Node& node);

  struct Gather {
    Span send, receive;
    int flight = -1;
  };
  const StepPlan& plan_;
  const Graph& whole_;
  const ProgramRank& rank_;
  HeldRows held_;
  const KeptGradients kept_;
  StepProgram program_;
  ProgramWriter writer_;
  PerValue<Span> at_;  // of the whole program's values outside blocks
  std::vector<Arenas> arenas_;
  SumPlan sum_;
  SumTurns turns_;
  int64_t slots_ = 0, together_ = 1;
  std::vector<std::unique_ptr<BucketSum>> buckets_;
  // Rows of a sparse table: those of this rank's micro-batches, one after another, and those of all ranks.
  // One data rank has only `all`.
  struct Rows {
    Span send, receive;
    Span ids, rows;                   // of all micro-batches, in their order
    int64_t count = 0, elements = 0;  // of a micro-batch: ids, elements of rows
    int flight = -1;
  };
  std::vector<Rows> rows_;            // as Phases::rows
  std::vector<int64_t> rows_before_;  // per slot: number of this rank's micro-batches in earlier slots
  size_t rows_of(ValueId handle) const;
  std::map<ValueId, NodeId> spread_;  // gradients that consist of rows of some ids: their spread_rows
  // Fetched rows of split tables: the ids of this rank's micro-batches, one after another, and of all ranks
  // along dp_shard; the rows of these ids that this rank owns; and the rows for its own micro-batches.
  struct Fetched {
    Span ids, all_ids, owned, received, rows;
    int64_t words = 0, elements = 0, spaced = 0;  // of a micro-batch; spaced: elements in `rows`
    // Per fetch, in a micro-batch's part; -1: its table is whole.
    std::vector<int64_t> ids_at, rows_at, spaced_at;
    std::vector<int64_t> counts;  // micro-batches of each rank along dp_shard
  };
  Fetched fetched_;
  Span copied_ids_;                     // for whole tables, slot by slot
  std::vector<int64_t> copied_ids_at_;  // per fetch, in a slot's part; -1: its ids are in the batch
  int64_t copied_words_ = 0;
  struct Field {
    Span all;
    int64_t bytes = 0, stride = 0;  // of a micro-batch
  };
  std::map<std::string, Field> batch_;
  ValueId sample_;
  Span samples_, vote_, wanted_;  // wanted_: whether replicas are checked
  Stretches seed_;
  std::vector<Span> seed_inputs_;
  std::vector<int> needs_;  // per call of the body: the number of seed calls that must run before it
  bool inspects_ = false;
  Span answers_;              // checksums of the body's outputs, in recomputations
  int64_t answered_ = 0;      // number of them so far
  std::vector<Span> limits_;  // of the norms, of the loss
  std::vector<ValueId> gates_;
  std::map<std::string, ValueId> rounded_;  // state -> its rounded rows
  std::map<std::string, size_t> updated_;   // state -> its index in OwnRows::updated
  Span largest_;                            // largest magnitudes of these weights
  // By state: the scale before the step's updates, and after them.
  std::map<std::string, std::pair<Span, Span>> scales_;
  bool tail_rounds_ = false;  // prepare_rounding() was done for the tail
  std::map<ValueId, ValueId> replaces_;
  std::map<ValueId, Gather> gathers_;
  std::set<std::pair<ValueId, size_t>> streamed_;  // a gather's handle, and its tensor
  std::map<ValueId, size_t> exchange_of_;
  std::map<ValueId, int> flights_;
  SumTrees sums_;
  UpdateTensors updates_;  // pending, and so are the regions that they read and write
  std::set<int> read_, written_;
  ChecksumSpans checked_;  // replicas to check, until the first updates
};

}  // namespace lockstep::compiler
