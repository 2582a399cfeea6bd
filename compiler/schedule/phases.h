// Phases: the typed program of a step, cut where sums over micro-batches begin and end.
#pragma once

#include <string>
#include <vector>

#include "compiler/pass/pass.h"
#include "compiler/schedule/phase.h"

namespace lockstep::compiler {

// One step of the tail, which runs node by node: a node of the whole program, or a fragment of plain ops on
// whole values.
struct TailStep {
  NodeId node;  // of the whole program; kNoNode: run `fragment`
  int fragment = -1;
  bool takes = false;  // whether the fragment only copies rows of whole sparse tables
};

struct Phases {
  Graph whole;  // the typed program, which is printed and checked
  // Per micro-batch, from data and buffers: the token counts (before backward), and the ids of sparse-table
  // rows that the body reads.
  Phase count;
  // Once per step, on whole values: what the body reads that follows from the counts (1 / count), or only
  // from state (weights in bf16).
  Phase seed;
  Phase body;  // per micro-batch: forward and backward; the same on every data mesh
  std::vector<std::vector<int>> buckets;  // per exchange, in order: the body outputs that it sends
  std::vector<NodeId> exchanges;          // per bucket: its lane_exchange_start in `whole`
  // Rows of sparse tables that are gathered from all micro-batches: their lane_gather_start in `whole`, and
  // its body outputs.
  struct Rows {
    NodeId gather;
    int ids = 0, rows = 0;
  };
  std::vector<Rows> rows;
  // Rows of sparse tables that a micro-batch reads. They are inputs of its body on every mesh, and are
  // fetched before it runs: the phase `copies` copies them if the table is whole, else their owners send
  // them.
  struct Fetch {
    ValueId table, ids, rows;  // of `whole`
    int counted = -1;          // ids: this output of count; -1: a batch field as it is
    int copied = -1;           // rows: this output of the phase `copies`; -1: the table is split
  };
  std::vector<Fetch> fetches;
  Phase copies;  // per micro-batch: rows of whole tables
  // Before the body, in order: weights stored as split rows are rounded (convert) and gathered (start, wait).
  std::vector<NodeId> head;
  // Weights that the head does not gather: a phase gathers them itself, and frees them. It has the input of
  // the phase, and the gather's start and tensor in `whole`; the head keeps the rest of that gather.
  struct Streamed {
    int input = 0;
    NodeId start;
    size_t tensor = 0;
    ValueId rows;  // what is sent: the rows of that tensor, or the rows that a rank casts them to
  };
  std::vector<Streamed> streamed;       // of each body
  std::vector<Streamed> seed_streamed;  // of the seed
  // What a rank computes from its own rows of weights that are read in float8 (gather_float8). The graphs
  // work on its rows.
  struct OwnRows {
    Phase maxima;                 // rounded rows -> the largest magnitude of each row
    std::vector<NodeId> gathers;  // in `whole`: starts and waits, of the maxima of all ranks
    Phase cast;                   // rounded rows, all maxima -> rows in float8
    // A weight whose update finds the largest magnitude of its rows. If the scale is known before, the update
    // also writes the rows in float8 (round_in_updates).
    struct Updated {
      std::string state;            // its name
      NodeId convert;               // in `whole`: the head's node that rounds its rows to bf16
      ValueId largest;              // of `whole`: f32 [ranks], one per rank's rows
      ValueId rows;                 // of `whole`: its rows in float8; kNoValue: the update writes bf16
      size_t group = 0, place = 0;  // in `scales`: the output with its scale, and the index there
      bool by_scale() const { return rows != kNoValue; }
    };
    std::vector<Updated> updated;
    // Histories before the step, and the same number after it -> the scales of groups of `updated` by the
    // former, then by the latter: f32 [weights] each.
    Phase scales;
  };
  OwnRows own_rows;
  std::vector<NodeId> counts;  // lane_count nodes in `whole`, in the order of count.outputs
  std::vector<TailStep> tail;  // everything after the body, in order
  std::vector<Phase> fragments;
};

// The head gathers all split weights; stream_weights changes that.
Phases cut_phases(const Graph& whole);

}  // namespace lockstep::compiler
