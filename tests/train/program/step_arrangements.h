// Meshes and ways to lay out a step over them, whose programs tests look at.
#pragma once

#include <string>
#include <vector>

#include "compiler/program/build/build.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {

using compiler::GatherWhen;

struct Arrangement {
  std::string name;
  Mesh mesh{{}, {}};
  int zero = 3;
  GatherWhen gather = GatherWhen::micro_batch;
  int64_t ranks_per_node = 0;
  bool invariant = true;
  int64_t global = 24, lanes = 0;
  DType compute = DType::f32;
  bool float8 = false;
  Float8Recipe recipe = Float8Recipe::tensorwise;
  int64_t together = 1;
};

inline std::vector<Arrangement> arrangements() {
  const Mesh hsdp{{2, 2}, {"dp_replicate", "dp_shard"}};
  std::vector<Arrangement> out{
      {.name = "one rank", .mesh = {{1}, {"dp_replicate"}}},
      {.name = "one micro-batch bf16", .mesh = {{1}, {"dp_replicate"}}, .global = 4, .compute = DType::bf16},
      {.name = "ddp 2", .mesh = {{2}, {"dp_replicate"}}},
      {.name = "ddp 4, some without lanes", .mesh = {{4}, {"dp_replicate"}}, .global = 12},
      {.name = "ddp 2 free", .mesh = {{2}, {"dp_replicate"}}, .invariant = false},
      {.name = "ddp 2 bf16", .mesh = {{2}, {"dp_replicate"}}, .compute = DType::bf16},
      {.name = "ddp 2 bf16, a micro-batch each",
       .mesh = {{2}, {"dp_replicate"}},
       .global = 8,
       .compute = DType::bf16},
      {.name = "ddp 2 bf16, a micro-batch each, of one lane",
       .mesh = {{2}, {"dp_replicate"}},
       .global = 8,
       .lanes = 1,
       .compute = DType::bf16},
      {.name = "ddp 2 bf16, four micro-batches of one lane",
       .mesh = {{2}, {"dp_replicate"}},
       .global = 16,
       .lanes = 1,
       .compute = DType::bf16},
      {.name = "ddp on 2 hosts, a micro-batch each",
       .mesh = {{4}, {"dp_replicate"}},
       .ranks_per_node = 2,
       .global = 16,
       .lanes = 2},
      {.name = "ddp on 2 hosts", .mesh = {{4}, {"dp_replicate"}}, .ranks_per_node = 2},
      {.name = "ddp 2, lanes of two", .mesh = {{2}, {"dp_replicate"}}, .lanes = 3},
      {.name = "ddp 2, three together", .mesh = {{2}, {"dp_replicate"}}, .lanes = 3, .together = 3},
      {.name = "ddp 2 bf16, two together of a size that is left",
       .mesh = {{2}, {"dp_replicate"}},
       .global = 32,
       .compute = DType::bf16,
       .together = 3},
      {.name = "zero 1", .mesh = {{2}, {"dp_shard"}}, .zero = 1},
      {.name = "zero 2", .mesh = {{3}, {"dp_shard"}}, .zero = 2},
      {.name = "zero 2, an idle slot", .mesh = {{2}, {"dp_shard"}}, .zero = 2, .global = 28, .lanes = 7},
      {.name = "zero 3", .mesh = {{2}, {"dp_shard"}}},
      {.name = "zero 3, idle slots", .mesh = {{4}, {"dp_shard"}}},
      {.name = "zero 3 bf16", .mesh = {{2}, {"dp_shard"}}, .compute = DType::bf16},
      {.name = "zero 3 float8", .mesh = {{2}, {"dp_shard"}}, .compute = DType::bf16, .float8 = true},
      {.name = "zero 3 float8, layer by layer",
       .mesh = {{3}, {"dp_shard"}},
       .gather = GatherWhen::layers,
       .compute = DType::bf16,
       .float8 = true},
      {.name = "zero 3 float8, once a step",
       .mesh = {{2}, {"dp_shard"}},
       .gather = GatherWhen::step,
       .compute = DType::bf16,
       .float8 = true},
      {.name = "zero 3 float8 delayed",
       .mesh = {{2}, {"dp_shard"}},
       .compute = DType::bf16,
       .float8 = true,
       .recipe = Float8Recipe::delayed},
      {.name = "hsdp float8", .mesh = hsdp, .compute = DType::bf16, .float8 = true},
      {.name = "zero 3 free", .mesh = {{2}, {"dp_shard"}}, .invariant = false},
      {.name = "zero 3, layer by layer", .mesh = {{2}, {"dp_shard"}}, .gather = GatherWhen::layers},
      {.name = "zero 3, layer by layer, idle slots",
       .mesh = {{4}, {"dp_shard"}},
       .gather = GatherWhen::layers},
      {.name = "zero 3, layer by layer, a rank without micro-batches",
       .mesh = {{3}, {"dp_shard"}},
       .gather = GatherWhen::layers,
       .global = 8},
      {.name = "zero 3, once a step", .mesh = {{2}, {"dp_shard"}}, .gather = GatherWhen::step},
      {.name = "zero 3 on 2 hosts", .mesh = {{4}, {"dp_shard"}}, .ranks_per_node = 2},
      {.name = "zero 1 on 2 hosts", .mesh = {{4}, {"dp_shard"}}, .zero = 1, .ranks_per_node = 2},
      {.name = "hsdp", .mesh = hsdp},
      {.name = "hsdp zero 1", .mesh = hsdp, .zero = 1},
      {.name = "hsdp on 2 hosts", .mesh = hsdp, .ranks_per_node = 2},
      {.name = "tp", .mesh = {{2}, {"tp"}}},
      {.name = "dp x tp", .mesh = {{2, 2}, {"dp_replicate", "tp"}}},
      {.name = "shard x tp", .mesh = {{2, 2}, {"dp_shard", "tp"}}},
      {.name = "shard x tp, layer by layer",
       .mesh = {{2, 2}, {"dp_shard", "tp"}},
       .gather = GatherWhen::layers},
  };
  return out;
}

}  // namespace lockstep::tests
