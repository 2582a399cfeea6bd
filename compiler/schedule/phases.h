// The step is phases, not one flat list: the typed program of a step is cut where sums over micro-batches
// begin and end.
#pragma once

#include <string>
#include <vector>

#include "compiler/pass.h"
#include "compiler/schedule/phase.h"

namespace lockstep::compiler {

// One step of the tail, which is run node by node: a node of the whole program, or a fragment of plain ops on
// whole values.
struct TailStep {
  NodeId node;  // of the whole program; kNoNode: run `fragment`
  int fragment = -1;
  bool takes = false;  // the fragment copies rows of whole sparse tables, and does nothing else
};

struct Phases {
  Graph whole;  // the typed program: what is printed and checked
  Phase count;  // per micro-batch, of data and buffers: the token counts (before backward), and the ids of
                // rows that the body reads of sparse tables
  Phase seed;   // once, on whole values: what the body reads of the counts (1 / count) and of state alone
                // (weights in bf16)
  Phase body;   // per micro-batch: forward and backward; the same on every data mesh
  std::vector<std::vector<int>> buckets;  // per exchange, in order: the body outputs that it carries
  std::vector<NodeId> exchanges;          // per bucket: its lane_exchange_start in `whole`
  // Rows of sparse tables, which are gathered of all micro-batches: their lane_gather_start in `whole`, and
  // the body outputs that it takes.
  struct Rows {
    NodeId gather;
    int ids = 0, rows = 0;
  };
  std::vector<Rows> rows;
  // Rows of sparse tables that a micro-batch reads: they come before its body, which has them as inputs on
  // every mesh. Where the table is whole, the phase `copies` copies them; else their owners send them.
  struct Fetch {
    ValueId table, ids, rows;  // of `whole`
    int counted = -1;          // ids: this output of count; -1: a batch field as it is
    int copied = -1;           // rows: this output of the phase `copies`; -1: the table is split
  };
  std::vector<Fetch> fetches;
  Phase copies;              // per micro-batch: rows of whole tables
  std::vector<NodeId> head;  // before the body: weights that lie as rows, rounded (convert) and gathered
                             // (start, wait), in order
  // Weights that are not gathered in the head: a phase gathers them for itself, and frees them. Input of the
  // phase, and the gather's start and tensor in `whole`; the head keeps the rest of that gather.
  struct Streamed {
    int input = 0;
    NodeId start;
    size_t tensor = 0;
    ValueId rows;  // what travels: the rows of that tensor, or what a rank casts them to
  };
  std::vector<Streamed> streamed;       // of each body
  std::vector<Streamed> seed_streamed;  // of the seed
  // What a rank makes of the rows that it owns of weights that are read in float8 (gather_float8). The graphs
  // are of its rows.
  struct OwnRows {
    Phase maxima;                 // rounded rows -> the largest magnitude of each
    std::vector<NodeId> gathers;  // in `whole`: starts and waits, of the maxima of all ranks
    Phase cast;                   // rounded rows, all maxima -> rows in float8
    // A weight whose update finds the largest magnitude of its rows, and writes them in float8 where the
    // scale is known before (round_in_updates).
    struct Updated {
      std::string state;            // its name
      NodeId convert;               // in `whole`: what rounds its rows to bf16, of the head
      ValueId largest;              // of `whole`: f32 [ranks], of each rank's rows
      ValueId rows;                 // of `whole`: its rows in float8; kNoValue: the update writes bf16
      size_t group = 0, place = 0;  // of `scales`: the output of its scale, and the element there
      bool by_scale() const { return rows != kNoValue; }
    };
    std::vector<Updated> updated;
    // Histories as the step finds them, and as many as it leaves them -> the scales of groups of `updated`
    // by the former, and of as many by the latter: f32 [weights] each.
    Phase scales;
  };
  OwnRows own_rows;
  std::vector<NodeId> counts;  // lane_count nodes in `whole`, in the order of count.outputs
  std::vector<TailStep> tail;  // everything after the body, in order
  std::vector<Phase> fragments;
};

// All weights that lie split are gathered in the head: see stream_weights.
Phases cut_phases(const Graph& whole);

}  // namespace lockstep::compiler
