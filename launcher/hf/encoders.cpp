// The tables of bert and vit, the list of families, and the keys common to every config.json.
#include <algorithm>

#include "core/base/error.h"
#include "launcher/hf/family.h"

namespace lockstep::launcher::hf {

namespace {
// Attention is bidirectional; queries and keys are not normed.
const std::vector<std::string_view> kLackedByEncoders = {"is_causal",
                                                         "causal",
                                                         "use_causal_mask",
                                                         "use_qk_norm",
                                                         "qk_norm",
                                                         "qk_layernorm",
                                                         "use_sliding_window",
                                                         "sliding_window",
                                                         "use_rope",
                                                         "use_rotary",
                                                         "rotary",
                                                         "use_relative_position_bias",
                                                         "use_shared_relative_position_bias"};

// Common to both: names of the encoder, keys of config.json.
HfFamily bert_encoder(std::string_view architecture, std::string_view kind) {
  HfFamily out{.model_type = "bert",
               .architecture = architecture,
               .kind = kind,
               .prefix = "bert.",
               .hidden = "bert.encoder.layer.0.intermediate.dense.weight"};
  for (std::string_view name :
       {"bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.{p}",
        "bert.encoder.layer.{i}.attention.self.query.{p}", "bert.encoder.layer.{i}.attention.self.key.{p}",
        "bert.encoder.layer.{i}.attention.self.value.{p}",
        "bert.encoder.layer.{i}.attention.output.dense.{p}",
        "bert.encoder.layer.{i}.attention.output.LayerNorm.{p}",
        "bert.encoder.layer.{i}.intermediate.dense.{p}", "bert.encoder.layer.{i}.output.dense.{p}",
        "bert.encoder.layer.{i}.output.LayerNorm.{p}"})
    out.names.push_back({name, name});
  out.generates = false;
  out.renamed = {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}};
  out.keys = {{"vocab_size", KeyRole::option, "vocab", "30522"},
              {"max_position_embeddings", KeyRole::option, "context", "512"},
              {"hidden_size", KeyRole::option, "width", "768"},
              {"num_hidden_layers", KeyRole::option, "depth", "12"},
              {"num_attention_heads", KeyRole::option, "heads", "12"},
              {"intermediate_size", KeyRole::option, "hidden", "3072"},
              {"layer_norm_eps", KeyRole::option, "eps", "1e-12"},
              {"hidden_dropout_prob", KeyRole::dropout, "dropout", "0.1"},
              {"attention_probs_dropout_prob", KeyRole::training, "", "0.1"},
              {"hidden_act", KeyRole::fixed, "", R"("gelu")", R"(["gelu"])"},
              {"type_vocab_size", KeyRole::fixed, "", "2", "[2]"},
              {"position_embedding_type", KeyRole::fixed, "", R"("absolute")", R"(["absolute"])"},
              {"is_decoder", KeyRole::fixed, "", "false", "[false]"},
              {"add_cross_attention", KeyRole::fixed, "", "false", "[false]"},
              {"classifier_dropout", KeyRole::inert}};
  out.lacks = kLackedByEncoders;
  return out;
}
}  // namespace

const HfFamily& bert() {
  static const HfFamily row = [] {
    HfFamily out = bert_encoder("BertForMaskedLM", "bert");
    out.also = {"BertModel", "BertForPreTraining"};
    for (std::string_view name : {"cls.predictions.transform.dense.{p}",
                                  "cls.predictions.transform.LayerNorm.{p}", "cls.predictions.bias"})
      out.names.push_back({name, name});
    out.tied = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
    constexpr std::string_view kSentences = "of whole sentences, which BertForMaskedLM does not compute";
    out.left_out = {{"**.position_ids", "positions in order"},
                    {"**.pooler.dense.*", kSentences},
                    {"cls.seq_relationship.*", kSentences}};
    out.keys.push_back({"tie_word_embeddings", KeyRole::fixed, "", "true", "[true]"});
    return out;
  }();
  return row;
}

const HfFamily& bert_classifier() {
  static const HfFamily row = [] {
    HfFamily out = bert_encoder("BertForSequenceClassification", "bert_classifier");
    out.also = {"BertModel", "BertForPreTraining", "BertForMaskedLM"};
    for (std::string_view name : {"bert.pooler.dense.{p}", "classifier.{p}"})
      out.names.push_back({name, name});
    out.left_out = {{"**.position_ids", "positions in order"},
                    {"cls.**", "of tokens and pairs, which BertForSequenceClassification does not compute"}};
    out.keys.push_back({"tie_word_embeddings", KeyRole::inert});
    out.special = {Special::classes};
    return out;
  }();
  return row;
}

const HfFamily& vit() {
  static const HfFamily row = [] {
    HfFamily out{.model_type = "vit",
                 .architecture = "ViTForImageClassification",
                 .also = {"ViTModel"},
                 .kind = "vit",
                 .prefix = "vit.",
                 .hidden = "encoder.layers.encoder_layer_0.mlp.0.weight"};
    out.names = {
        {"vit.embeddings.cls_token", "class_token"},
        {"vit.embeddings.position_embeddings", "encoder.pos_embedding"},
        {"vit.embeddings.patch_embeddings.projection.{p}", "conv_proj.{p}"},
        {"vit.encoder.layer.{i}.layernorm_before.{p}", "encoder.layers.encoder_layer_{i}.ln_1.{p}"},
        {"vit.encoder.layer.{i}.layernorm_after.{p}", "encoder.layers.encoder_layer_{i}.ln_2.{p}"},
        {"vit.encoder.layer.{i}.attention.output.dense.{p}",
         "encoder.layers.encoder_layer_{i}.self_attention.out_proj.{p}"},
        {"vit.encoder.layer.{i}.intermediate.dense.{p}", "encoder.layers.encoder_layer_{i}.mlp.0.{p}"},
        {"vit.encoder.layer.{i}.output.dense.{p}", "encoder.layers.encoder_layer_{i}.mlp.3.{p}"},
        {"vit.layernorm.{p}", "encoder.ln.{p}"},
        {"classifier.{p}", "heads.head.{p}"}};
    constexpr std::string_view kPacked = "encoder.layers.encoder_layer_{i}.self_attention.in_proj_{p}";
    out.names.insert(out.names.end(),
                     {{"vit.encoder.layer.{i}.attention.attention.query.{p}", kPacked, How::rows, 0, 3},
                      {"vit.encoder.layer.{i}.attention.attention.key.{p}", kPacked, How::rows, 1, 3},
                      {"vit.encoder.layer.{i}.attention.attention.value.{p}", kPacked, How::rows, 2, 3}});
    out.left_out = {{"vit.pooler.dense.*", "of ViTModel's pooled output, which no classifier reads"}};
    out.keys = {{"num_channels", KeyRole::option, "channels", "3"},
                {"image_size", KeyRole::option, "size", "224"},
                {"patch_size", KeyRole::option, "patch", "16"},
                {"hidden_size", KeyRole::option, "width", "768"},
                {"num_hidden_layers", KeyRole::option, "depth", "12"},
                {"num_attention_heads", KeyRole::option, "heads", "12"},
                {"intermediate_size", KeyRole::option, "hidden", "3072"},
                {"layer_norm_eps", KeyRole::option, "eps", "1e-12"},
                {"hidden_dropout_prob", KeyRole::dropout, "dropout", "0.0"},
                {"attention_probs_dropout_prob", KeyRole::training, "", "0.0"},
                {"hidden_act", KeyRole::fixed, "", R"("gelu")", R"(["gelu"])"},
                {"qkv_bias", KeyRole::fixed, "", "true", "[true]"},
                {"encoder_stride", KeyRole::inert},
                {"pooler_act", KeyRole::inert},
                {"pooler_output_size", KeyRole::inert}};
    out.special = {Special::classes};
    out.lacks = kLackedByEncoders;
    out.lacks.insert(out.lacks.end(),
                     {"tie_word_embeddings", "use_mask_token", "is_decoder", "add_cross_attention"});
    out.generates = false;
    return out;
  }();
  return row;
}

std::span<const HfFamily* const> families() {
  static const HfFamily* const all[] = {&gpt2(),  &llama(), &qwen2(),           &qwen3(), &mistral(),
                                        &gemma(), &bert(),  &bert_classifier(), &vit()};
  return all;
}

std::span<const KeyRule> shared_keys() {
  static const std::vector<KeyRule> rows = [] {
    std::vector<KeyRule> out;
    for (std::string_view name :
         {"model_type", "architectures", "dtype", "torch_dtype", "use_cache", "transformers_version",
          "_name_or_path", "transformers_weights", "name_or_path", "bos_token_id", "eos_token_id",
          "pad_token_id", "sep_token_id", "cls_token_id", "unk_token_id", "mask_token_id",
          "decoder_start_token_id", "initializer_range", "task_specific_params", "tokenizer_class",
          "gradient_checkpointing", "id2label", "label2id", "problem_type", "chunk_size_feed_forward",
          "return_dict", "output_attentions", "torchscript", "output_hidden_states", "directionality",
          "pooler_fc_size", "pooler_type", "pooler_num_attention_heads", "num_labels", "pooler_num_fc_layers",
          "pooler_size_per_head",
          // Generation keys, which are now in a separate file.
          "do_sample", "early_stopping", "max_length", "min_length", "max_new_tokens", "temperature", "top_k",
          "top_p", "typical_p", "num_beams", "num_beam_groups", "num_return_sequences", "diversity_penalty",
          "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
          "bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens",
          "begin_suppress_tokens", "exponential_decay_length_penalty", "remove_invalid_values",
          "output_scores", "return_dict_in_generate"})
      out.push_back({name, KeyRole::inert});
    return out;
  }();
  return rows;
}

std::span<const std::string_view> lacked_by_all() {
  static constexpr std::string_view all[] = {
      // Keys of transformers' base class, in current and older versions.
      "is_encoder_decoder", "tie_encoder_decoder", "cross_attention_hidden_size", "use_bfloat16",
      "tf_legacy_loss", "pruned_heads", "finetuning_task", "prefix", "auto_map", "quantization_config",
      "_attn_implementation_autoset", "_attn_implementation_internal", "attn_implementation",
      // Alternative ways to compute the same, and parts that no family has.
      "use_flash_attn", "use_flash_attention", "_flash_attn_2_enabled", "flash_attn", "use_sdpa",
      "use_memory_efficient_attention", "fp16", "bf16", "fp32", "int8", "alibi", "use_alibi", "multi_query",
      "use_parallel_residual", "parallel_attn", "new_decoder_architecture", "attn_logit_softcapping",
      "final_logit_softcapping", "logits_soft_cap", "num_experts", "num_local_experts", "n_routed_experts",
      "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size",
      "mlp_only_layers", "norm_topk_prob", "output_router_logits", "router_jitter_noise",
      "num_nextn_predict_layers", "use_mtp", "use_mrope", "layerdrop", "rope_interleaved", "rope_interleave",
      "use_mup", "z_loss", "no_rope_layers", "no_rope_layer_interval"};
  return all;
}

const HfFamily& family_of_config(const Json& config, const std::string& where, const std::string& kind) {
  const std::string type = config["model_type"].get<std::string>();
  const Json named = config.value("architectures", Json());
  std::vector<std::string> types;
  const HfFamily* first = nullptr;
  for (const HfFamily* row : families()) {
    if (types.empty() || types.back() != row->model_type) types.emplace_back(row->model_type);
    if (row->model_type != type) continue;
    if (kind.empty() ? named.is_array() && std::find(named.begin(), named.end(),
                                                     std::string(row->architecture)) != named.end()
                     : row->kind == kind)
      return *row;
    if (!first) first = row;
  }
  if (first) return *first;
  throw UserError(str(
      where, ": model_type is \"", shortened(printable(type), 60), "\"; trainrun reads ", join(types, ", "),
      ". Where the model computes what one of these does, write that model_type and its names of "
      "tensors; else write it in Python or C++, and load its .safetensors by ls.load_weights"));
}

const HfFamily& family_of_kind(const std::string& kind, const std::string& version) {
  std::vector<std::string> kinds;
  for (const HfFamily* row : families()) {
    if (row->kind == kind && (row->version.empty() || row->version == version)) return *row;
    if (kinds.empty() || kinds.back() != row->kind) kinds.emplace_back(row->kind);
  }
  throw UserError(str("model.kind is \"", kind, "\", which has no name in transformers; export-hf writes ",
                      join(kinds, ", ")));
}

}  // namespace lockstep::launcher::hf
