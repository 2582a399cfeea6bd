// The table of the house's words.
#include "launcher/cli/words.h"

namespace lockstep::cli {

std::span<const HouseWord> house_words() {
  static const HouseWord table[] = {
      {"rank",
       "A process (or, with --simulate, a thread) that computes its part of each step. Ranks are numbered "
       "from 0."},
      {"mesh",
       "How ranks are arranged: sizes (mesh.shape) and names (mesh.dim_names), row-major, the last dim "
       "fastest. The name of a dim says what it does."},
      {"mesh dim | mesh dimension",
       "One axis of the mesh: dp_replicate, dp_shard, tp; pp and cp must have size 1 in this version."},
      {"dp_replicate",
       "Mesh dim: its ranks have the same weights and other micro-batches (DDP). Moments of the optimizer "
       "are split over them."},
      {"dp_shard",
       "Mesh dim: its ranks have other micro-batches, and split moments, gradients and weights by rows "
       "(FSDP, ZeRO 1 to 3: mesh.zero)."},
      {"tp",
       "Mesh dim: its ranks have the same micro-batches and split matrices (tensor parallelism), as the "
       "model's table or placements say."},
      {"pp",
       "Mesh dim of pipeline parallelism: layers split over ranks. This version splits none; its size is 1."},
      {"cp",
       "Mesh dim of context parallelism: sequences split over ranks. This version splits none; its size is "
       "1."},
      {"placement",
       "How a tensor lies on a mesh dim: Replicate, Shard(dim), Partial (sums to be added), or PerLane (one "
       "value per micro-batch)."},
      {"global batch",
       "The sequences of a step on all ranks together: batch.global. It does not change with the number of "
       "ranks."},
      {"micro-batch | micro_batch",
       "The sequences that a rank computes at a time: batch.micro. A step has batch.global / batch.micro of "
       "them."},
      {"lane | lanes",
       "A run of consecutive micro-batches, a leaf of the tree by which gradients are summed: batch.lanes. "
       "The tree is the same on any number of ranks, and so are the bits."},
      {"step",
       "One update of the weights: all micro-batches of a global batch, their gradients summed, then the "
       "optimizer."},
      {"FQN",
       "The full name of a tensor of the state, as blocks.3.attn.qkv.weight: layers from the outside in."},
      {"bucket",
       "Gradients or weights of several tensors that travel in one collective: compile.bucket_bytes."},
      {"collective",
       "What all ranks of a mesh dim do together: all_reduce, all_gather, reduce_scatter, broadcast, "
       "barrier. One that a rank does not reach is an error at the deadline."},
      {"certificate",
       "A hash of all that decides the bits of a step: the graph, kernels, libraries, batch and precision. "
       "Equal certificates promise equal bits, on any number of ranks."},
      {"state hash | state_hash",
       "A hash of all weights, moments and buffers, equal on any mesh: log.hash_every."},
      {"state", "Weights, buffers and the optimizer's moments: what a checkpoint holds."},
      {"arena",
       "The memory of a step's intermediate values (activations, workspaces), planned before the run; "
       "compile.memory_budget bounds it."},
      {"kernel",
       "Machine code for a group of ops, generated from the graph, compiled once and kept in the kernel "
       "cache (LOCKSTEP_CACHE)."},
      {"graph", "The step as it was traced: ops and tensors, without values. LOCKSTEP_LOGS=trace prints it."},
      {"pass", "One rewriting of the graph on its way to kernels. LOCKSTEP_LOGS=passes prints them all."},
      {"shard", "A rank's part of a tensor; of a checkpoint, the file that a rank has written."},
      {"chunk", "A box of a tensor at rest, in a checkpoint's file."},
      {"manifest",
       "manifest.json of a checkpoint: which tensors, where, with which checksums. A folder without one is "
       "no checkpoint."},
      {"checkpoint",
       "runs/NAME/ckpt/step-N: the whole state, loaded on any mesh. trainrun ckpt ls runs/NAME lists them."},
      {"resume",
       "The same command goes on from the newest whole checkpoint of runs/NAME, on any number of ranks."},
      {"invariant",
       "train.numerics invariant: sums over micro-batches and ranks are taken in one order, so the bits do "
       "not depend on the number of ranks."},
      {"root cause",
       "The first failure of a run: what the others died of. The lines after it are of ranks that lost it."},
      {"roofline",
       "A table of a device's rates, from which plan predicts the time of a step: --roofline "
       "h200|cpu|FILE.json."},
      {"master | masters", "The fp32 weights of a bf16 run: only the rank that updates them needs them."},
  };
  return table;
}

}  // namespace lockstep::cli
