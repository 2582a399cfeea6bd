// The table of project terms.
#include "launcher/cli/words/words.h"

namespace lockstep::launcher::cli {

namespace {
constexpr HouseWord kWords[] = {
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
     "How a tensor is split over a mesh dim: Replicate, Shard(dim), Partial (sums to be added), or PerLane "
     "(one value per micro-batch)."},
    {"global batch",
     "The samples of a step on all ranks together: batch.global. It does not change with the number of "
     "ranks."},
    {"micro-batch | micro_batch",
     "The samples that a rank computes at a time: batch.micro. A step has batch.global / batch.micro of "
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
     "A hash of what decides the bits of a step: the graph, kernels, libraries, batch and precision. With "
     "the same data, seed and learning rate, equal certificates promise equal bits, on any number of ranks."},
    {"state hash | state_hash",
     "A hash of all weights, moments and buffers, equal on any mesh: log.hash_every."},
    {"state", "Weights, buffers and the optimizer's moments: what a checkpoint holds."},
    {"arena",
     "The memory of a step's intermediate values (activations, workspaces), planned before the run; "
     "compile.memory_budget bounds it."},
    {"kernel",
     "Machine code for a group of ops, generated from the graph, compiled once and kept in the kernel "
     "cache (LOCKSTEP_CACHE)."},
    {"graph",
     "A computation as nodes (an op each) and values. LOCKSTEP_LOGS=trace prints the step as it was "
     "traced."},
    {"op", "An operation of the language, one row of the op table: trainrun explain NAME explains one."},
    {"composite", "An op that expands into primitives, unless the device's target claims it."},
    {"typed program",
     "The graph of a whole step, with a layout on each value and its collectives as nodes: "
     "LOCKSTEP_LOGS=partition."},
    {"phase | head | count | seed | body | tail",
     "A part of the typed program: head (gathers of weights), count (of tokens), seed (1 / count), body "
     "(forward and backward of a micro-batch), tail (sums, norm, updates)."},
    {"target", "What a device gives to the compiler: kernels, library calls, sums. train.device chooses it."},
    {"library call", "A prepared call of oneDNN, cuBLASLt or cuDNN for an op that the target claims."},
    {"data rank",
     "A rank's number along dp_replicate and dp_shard. Other data ranks have other micro-batches."},
    {"host", "A machine. Its ranks share memory and links: mesh.ranks_per_node."},
    {"group", "Ranks that talk: an interface over MPI, NCCL or threads, one per mesh dim."},
    {"world", "The group of all ranks of a run."},
    {"layout", "A tensor's placements along all mesh dims."},
    {"owner", "The data rank that sums and updates certain rows (indices of dim 0) of a tensor."},
    {"tree", "The fixed order in which lanes are summed, whatever the number of ranks."},
    {"exchange", "The all-to-all that sends gradients, or partial sums of them, to the owners of the rows."},
    {"slot", "A place for a micro-batch on a rank; idle where there is none for it."},
    {"round", "The micro-batches in the same slot of all ranks, where each slot has its exchange."},
    {"exposed",
     "Of communication: the time in which a step waits for it without computing; exposed_DIM_ms in "
     "metrics.jsonl."},
    {"fingerprint", "What all ranks must have in common, compared before they start."},
    {"flight record",
     "A worker's memory of its step and its last collectives: trainrun flight runs/NAME/logs/attempt-K."},
    {"pass", "One rewriting of the graph on its way to kernels. LOCKSTEP_LOGS=passes prints them all."},
    {"shard", "A rank's part of a tensor; of a checkpoint, the file that a rank has written."},
    {"chunk", "A box of a tensor at rest, in a checkpoint's file."},
    {"manifest",
     "manifest.json of a checkpoint: which tensors, where, with which checksums. A folder without one is "
     "no checkpoint."},
    {"checkpoint",
     "runs/NAME/ckpt/step-N: the whole state, loaded on any mesh. trainrun ckpt ls runs/NAME lists them."},
    {"resume",
     "The same command continues from the newest whole checkpoint of runs/NAME, on any number of ranks."},
    {"invariant",
     "train.numerics invariant: sums over micro-batches and ranks are taken in one order, so the bits do "
     "not depend on the number of ranks."},
    {"root cause",
     "The first failure of a run: what the others died of. The lines after it are of ranks that lost it."},
    {"roofline",
     "A table of a device's rates, from which plan predicts the time of a step: --roofline "
     "h200|b200|h100|a100|cpu|FILE.json."},
    {"val_loss | val_perplexity | val_accuracy",
     "Columns of metrics.jsonl, of the samples that data.validation keeps, after every train.eval_every "
     "steps: "
     "the mean loss, e^loss where the loss counts tokens, and the task's metrics as val_NAME. train.monitor "
     "and "
     "optim.schedule.metric name one."},
    {"grad_norm",
     "A column of metrics.jsonl: the norm of all gradients of the step, before optim.clip, exact on any "
     "number "
     "of ranks."},
    {"step_ms", "A column of metrics.jsonl: the milliseconds of the step."},
    {"tokens_per_s | samples_per_s", "A column of metrics.jsonl: what all ranks together read in a second."},
    {"busy_ms_max | busy_ms_median | busy_ms_min | slowest_rank",
     "Columns of metrics.jsonl: the ranks' own work per step, without waiting; a rank far above the median "
     "slows all."},
    {"passed_over",
     "A column of metrics.jsonl: steps whose update was not made (train.on_nonfinite, "
     "train.on_spike)."},
    {"solve | solve_triangular | inverse | det | slogdet | cholesky | matrix_power | matrix_norm | trace | "
     "diagonal | "
     "diag | diag_embed",
     "A function of matrices, [..., n, n], of at most 64 rows; composed of ops, with its gradient. In Python "
     "help(lockstep.solve), in C++ core/functions/matrices/linalg.h."},
    {"master | masters", "The fp32 weights of a bf16 run: only the rank that updates them needs them."},
};
}  // namespace

std::span<const HouseWord> house_words() { return kWords; }

}  // namespace lockstep::launcher::cli
