// The table of other frameworks' words.
#include "launcher/config/neighbours.h"

#include <cctype>
#include <span>

#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
struct Row {
  const char *words, *here;  // words: separated by spaces, in lower case with underscores
};
constexpr Row kRows[] = {
    {"batch_size bs global_batch_size train_batch_size",
     "batch.global is samples per step on all ranks together, batch.micro those of a micro-batch"},
    {"micro_batch_size per_device_train_batch_size per_device_batch_size local_batch_size "
     "train_micro_batch_size_per_gpu",
     "did you mean batch.micro?"},
    {"gradient_accumulation gradient_accumulation_steps grad_accum grad_accumulation accumulate_grad_batches "
     "accumulation_steps accumulate",
     "micro-batches are summed by themselves: batch.global / batch.micro of them a step, on any number of "
     "ranks"},
    {"learn_rate learnrate learning_rate base_lr max_lr lr0", "did you mean optim.lr?"},
    {"min_lr min_lr_ratio eta_min", "did you mean optim.schedule.min_ratio, a share of optim.lr?"},
    {"lr_scheduler lr_scheduler_type scheduler lr_schedule lr_decay_style",
     "did you mean optim.schedule.kind (constant, linear, cosine, wsd, restarts, plateau)?"},
    {"warmup_steps warmup_iters num_warmup_steps lr_warmup_iters",
     "did you mean optim.schedule.warmup, in steps?"},
    {"warmup_ratio", "did you mean optim.schedule.warmup, in steps?"},
    {"max_grad_norm grad_clip clip_grad clip_grad_norm gradient_clip_val gradient_clipping max_norm",
     "did you mean optim.clip?"},
    {"optimizer optim_type",
     "did you mean optim.kind (adamw, sgd, lion, rmsprop, adagrad, sparse_adam, rowwise_adagrad, muon, "
     "adafactor)?"},
    {"adam_beta1 adam_beta2 beta1 beta2", "did you mean optim.betas, as in [0.9,0.95]?"},
    {"adam_eps adam_epsilon", "did you mean optim.eps?"},
    {"sizes mesh_shape mesh_size", "did you mean mesh.shape?"},
    {"wd decay", "did you mean optim.weight_decay?"},
    {"lora_r lora_rank", "did you mean train.lora.rank?"},
    {"lora_alpha", "did you mean train.lora.alpha?"},
    {"lora_dropout", "did you mean train.lora.dropout?"},
    {"target_modules lora_target_modules lora_target", "did you mean train.lora.targets, globs of names?"},
    {"modules_to_save", "did you mean train.lora.also, globs of names?"},
    {"peft lora peft_config use_lora", "did you mean train.lora.rank? A rank above 0 trains adapters"},
    {"freeze frozen requires_grad freeze_layers", "did you mean train.freeze, globs of names?"},
    {"param_groups parameter_groups no_decay",
     "did you mean optim.groups, as in [{\"params\": \"**.bias\", \"weight_decay\": 0}]?"},
    {"epochs num_epochs num_train_epochs max_epochs",
     "a run is counted in steps: train.steps; an epoch of the data is its sequences / batch.global steps"},
    {"max_steps max_iters num_steps iterations train_iters total_steps training_steps",
     "did you mean train.steps?"},
    {"n_layer n_layers num_layers num_hidden_layers layers", "did you mean model.depth?"},
    {"n_head n_heads num_heads num_attention_heads attention_heads", "did you mean model.heads?"},
    {"n_kv_heads num_key_value_heads num_query_groups", "did you mean model.kv_heads?"},
    {"n_embd d_model hidden_size dim embed_dim embedding_dim model_dim", "did you mean model.width?"},
    {"intermediate_size d_ff ffn_hidden_size ffn_dim n_inner", "did you mean model.hidden?"},
    {"block_size seq_len seq_length sequence_length max_seq_len max_seq_length max_length "
     "max_position_embeddings n_ctx n_positions context_length",
     "did you mean model.context?"},
    {"vocab_size n_vocab", "did you mean model.vocab?"},
    {"layer_norm_eps rms_norm_eps norm_eps", "did you mean model.eps?"},
    {"model_type architecture arch",
     "did you mean model.kind? trainrun explain model.kind lists the families"},
    {"dataset train_data data_path data_dir train_file", "did you mean data.paths?"},
    {"chat_template conversation_template prompt_template", "did you mean data.template (chatml, llama3)?"},
    {"packing sample_packing pack_sequences", "did you mean data.pack (documents, none, stream)?"},
    {"text_column text_field dataset_text_field text_key", "did you mean data.text?"},
    {"second_text sentence2 sentence2_key text_b pair_column", "did you mean data.text_pair?"},
    {"label_column label_field label_key target_column", "did you mean data.label?"},
    {"class_names label_names id2label label_list",
     "did you mean data.classes, as in [\"negative\",\"positive\"]?"},
    {"num_labels num_classes n_classes", "did you mean model.classes?"},
    {"messages_column dataset_messages_field conversations", "did you mean data.messages?"},
    {"tokenizer_name tokenizer_path tokenizer_name_or_path tokenizer_model",
     "did you mean data.tokenizer, a tokenizer.json or the folder that has one?"},
    {"eos_token", "did you mean data.eos?"},
    {"data_mix dataset_weights dataset_probabilities mixture data_mixture",
     "did you mean data.sources, as in [{\"paths\": [\"a.jsonl\"], \"weight\": 2}]?"},
    {"train_on_inputs completion_only_loss assistant_only_loss mask_inputs",
     "only completions, and what the assistant says, are learnt: data.kind jsonl"},
    {"hflip random_flip horizontal_flip", "did you mean data.image.flip?"},
    {"val_split validation_split eval_ratio", "did you mean data.validation?"},
    {"gpu gpus cpu cuda use_gpu use_cpu use_cuda no_cuda device_type gpu_type",
     "train.device says where the step runs, as in --train.device=cpu or cuda; --nproc N starts N ranks on a "
     "host, each on a GPU of its own; trainrun plan --roofline NAME plans for another device"},
    {"worker workers n_workers cpus num_cpus n_gpus ngpu ngpus num_devices devices nprocs_per_node",
     "--nproc N starts N ranks on a host; data is read ahead of the step without workers"},
    {"num_workers dataloader_num_workers",
     "data needs no workers: a batch is read while the step before it runs"},
    {"fp16 bf16 amp mixed_precision dtype torch_dtype precision half autocast",
     "did you mean train.precision (fp32, tf32, bf16, fp16, float8)?"},
    {"fp8 float8 enable_fp8 use_fp8 fp8_enabled fp8_training enable_float8 enable_float8_training "
     "float8_training float8_enable float8_enabled convert_to_float8_training fp8_autocast fp8_config "
     "fp8_backend fp8_wgrad",
     "did you mean train.precision float8? Linear layers multiply in float8, and the rest is as in bf16"},
    {"fp8_recipe fp8_recipe_name float8_recipe float8_recipe_name recipe_name from_recipe_name",
     "did you mean train.float8.recipe (tensorwise, rowwise, delayed)?"},
    {"fp8_format float8_format float8_dtype fp8_e4m3 fp8_hybrid fp8_e5m2",
     "did you mean train.float8.gradients (e5m2, e4m3)? Its default, e5m2, is what others call hybrid"},
    {"fp8_amax_history_len fp8_amax_history_length amax_history_len amax_history_length",
     "did you mean train.float8.history, with train.float8.recipe delayed?"},
    {"delayed_scaling fp8_delayed_scaling", "did you mean train.float8.recipe delayed?"},
    {"fp8_amax_compute_algo fp8_amax_compute_algorithm amax_compute_algo fp8_margin fp8_interval",
     "a delayed scale follows from the largest of its history, in each step and without a margin "
     "(train.float8.recipe delayed)"},
    {"exp_avg_dtype exp_avg_sq_dtype optim_bits optimizer_state_dtype optimizer_states_dtype",
     "did you mean optim.moments (fp32 or bf16)?"},
    {"cpu_offload offload_optimizer optimizer_offload optimizer_cpu_offload offload_optimizer_device "
     "offload_optimizer_states offload_params fsdp_cpu_offload fsdp_offload_params",
     "did you mean optim.offload true? Moments are then stored in host memory; weights stay on the device"},
    {"filter_fqns module_filter_fn float8_filter_fqns float8_filter fp8_filter_fqns",
     "did you mean train.float8.skip, globs of names?"},
    {"enable_fsdp_float8_all_gather float8_enable_fsdp_float8_all_gather fp8_enable_fsdp_float8_all_gather "
     "fp8_param_gather precompute_float8_dynamic_scale_for_fsdp "
     "float8_precompute_float8_dynamic_scale_for_fsdp",
     "split weights are sent in float8 automatically: train.precision float8 needs no other key"},
    {"save_steps save_every save_interval checkpoint_every save_freq", "did you mean checkpoint.every?"},
    {"save_total_limit keep_last", "did you mean checkpoint.keep?"},
    {"eval evaluate validate eval_steps eval_interval evaluation_strategy val_check_interval",
     "did you mean train.eval_every? A run validates on data.validation by itself"},
    {"early_stopping early_stop early_stopping_patience earlystopping",
     "did you mean train.patience? The run ends after that many validations without a better train.monitor"},
    {"ema use_ema ema_decay model_ema swa",
     "trainrun ckpt average makes a mean of a run's checkpoints; in a program of your own WeightAverage "
     "follows the weights"},
    {"attn_dropout attention_dropout attn_pdrop attention_probs_dropout_prob",
     "no attention probabilities are dropped here; model.dropout drops of what a layer adds"},
    {"flash_attention flash_attn use_flash_attention attn_implementation sdpa_backend xformers",
     "attention is computed in tiles by itself, forward and backward, on every device"},
    {"loss_scale loss_scaling grad_scaler init_scale initial_scale_power dynamic_loss_scale",
     "under train.precision fp16 the loss is scaled by itself, by a scale that follows overflows; bf16 needs "
     "none"},
    {"qlora load_in_4bit load_in_8bit bnb_4bit_compute_dtype quantization quantization_config",
     "this version does not store weights in 4 or 8 bits; train.lora.rank trains adapters with bf16 weights"},
    {"dpo grpo ppo rlhf kto orpo reward_model preference",
     "no task learns from preferences or rewards in this version; data.kind jsonl tunes on answers, and a "
     "program of your own has any loss"},
    {"mixtral moe mixture_of_experts num_experts num_local_experts qwen2_moe qwen3_moe deepseek deepseek_v2 "
     "deepseek_v3 gpt_oss",
     "no family has experts; examples/moe.cpp is a program of your own that has them"},
    {"logging_steps log_interval log_freq", "did you mean log.every?"},
    {"report_to logging_dir tensorboard_dir tensorboard_log_dir use_tensorboard tensorboard_logger",
     "did you mean log.tensorboard true? It writes event files into runs/NAME, next to metrics.jsonl"},
    {"wandb use_wandb wandb_project mlflow",
     "metrics.jsonl has every number; log.tensorboard true writes event files, too"},
    {"output_dir out_dir save_dir run_name experiment_name",
     "did you mean name? The run writes to runs/NAME"},
    {"resume resume_from resume_from_checkpoint load ckpt_path",
     "a run resumes by itself: the same command continues from its newest checkpoint; train.init_from reads "
     "the weights of another run"},
    {"gradient_checkpointing activation_checkpointing recompute remat",
     "did you mean compile.memory_budget (bytes, or full)?"},
    {"compile_mode compile_dynamic compile_fullgraph fullgraph",
     "a step is always one graph of the config's sizes, optimized in one way; leave it out"},
    {"torch_compile compile_model", "every step is compiled; the section compile says how"},
    {"ddp data_parallel data_parallel_size dp",
     "dp_replicate is the mesh dim that does it: mesh.dim_names [\"dp_replicate\"], which is the default"},
    {"fsdp zero3 zero deepspeed sharded_data_parallel fully_sharded_data_parallel",
     "dp_shard is the mesh dim that does it: mesh.dim_names [\"dp_shard\"]; mesh.zero says what is split"},
    {"stage zero_stage zero_optimization",
     "did you mean mesh.zero (1, 2, 3), with mesh.dim_names [\"dp_shard\"]?"},
    {"hsdp", "two mesh dims do it: mesh.dim_names [\"dp_replicate\",\"dp_shard\"], mesh.shape as in [2,4]"},
    {"tensor_parallel tensor_parallel_size tensor_model_parallel_size tp_size model_parallel "
     "model_parallel_size sequence_parallel",
     "tp is the mesh dim that does it: mesh.dim_names [\"dp_replicate\",\"tp\"], mesh.shape as in [2,4]"},
    {"pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp_size expert_parallel "
     "expert_model_parallel_size ep context_parallel context_parallel_size cp_size pipeline pp cp",
     "no mesh dim does it in this version: dp_replicate, dp_shard and tp do the rest"},
};
constexpr Row kValues[] = {
    {"gpu gpus nvidia", "cuda"},
    {"adam", "adamw"},
    {"float32 float single f32", "fp32"},
    {"bfloat16 bf16_mixed", "bf16"},
    {"float16 f16 half 16 16_mixed", "fp16"},
    {"fp8 f8 fp8_mixed fp8_e4m3 fp8_hybrid float8_e4m3 float8_e4m3fn e4m3 transformer_engine", "float8"},
    {"hybrid fp8_e5m2 float8_e5m2 f8_e5m2", "e5m2"},
    {"f8_e4m3", "e4m3"},
    {"gpt2 gpt_2", "gpt"},
    {"llama2 llama3", "llama"},
    {"bin binary", "tokens"},
    {"json json_lines jsonlines ndjson chat sft", "jsonl"},
    {"npy npz numpy", "arrays"},
    {"image imagefolder image_folder picture pictures", "images"},
    {"txt utf_8 raw", "text"},
    {"cosine_with_warmup cosineannealinglr", "cosine"},
    {"random shuffled", "shuffle"},
};

std::string plain(std::string_view word) {
  if (size_t dot = word.rfind('.'); dot != std::string_view::npos) word.remove_prefix(dot + 1);
  std::string out;
  for (char c : word)
    out += c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string found(std::span<const Row> rows, const std::string& word) {
  for (const Row& row : rows)
    for (const auto& known : split(row.words, ' '))
      if (known == word) return row.here;
  return "";
}
}  // namespace

std::string neighbour(std::string_view word) { return found(kRows, plain(word)); }
std::string neighbour_value(std::string_view word) { return found(kValues, plain(word)); }

}  // namespace lockstep::launcher
