// The tables of gpt2, llama, qwen2, qwen3, mistral and gemma.
#include "launcher/hf/family.h"

namespace lockstep::launcher::hf {

namespace {
// Buffers of causal masks and rotary frequencies in older files; they follow from the config.
constexpr UnreadTensor kMask{"**.attn.bias", "a causal mask"},
    kMasked{"**.attn.masked_bias", "a causal mask"},
    kFrequencies{"**.rotary_emb.inv_freq", "rotary frequencies"};

std::vector<NameRule> rotary_names() {
  std::vector<NameRule> out = {{"model.embed_tokens.weight", "model.embed_tokens.weight"},
                               {"model.norm.weight", "model.norm.weight"},
                               {"lm_head.weight", "lm_head.weight"}};
  for (std::string_view name :
       {"model.layers.{i}.input_layernorm.weight", "model.layers.{i}.post_attention_layernorm.weight",
        "model.layers.{i}.self_attn.q_proj.{p}", "model.layers.{i}.self_attn.k_proj.{p}",
        "model.layers.{i}.self_attn.v_proj.{p}", "model.layers.{i}.self_attn.o_proj.weight",
        "model.layers.{i}.self_attn.q_norm.weight", "model.layers.{i}.self_attn.k_norm.weight",
        "model.layers.{i}.mlp.gate_proj.weight", "model.layers.{i}.mlp.up_proj.weight",
        "model.layers.{i}.mlp.down_proj.weight"})
    out.push_back({name, name});
  return out;
}
// The common rows of rotary decoders, followed by a family's own.
std::vector<KeyRule> rotary_keys(std::vector<KeyRule> own) {
  std::vector<KeyRule> out = {{"hidden_size", KeyRole::option, "width", ""},
                              {"num_hidden_layers", KeyRole::option, "depth", ""},
                              {"num_attention_heads", KeyRole::option, "heads", ""},
                              {"intermediate_size", KeyRole::option, "hidden", ""},
                              {"vocab_size", KeyRole::option, "vocab", ""},
                              {"max_position_embeddings", KeyRole::context, "context", ""},
                              {"attention_dropout", KeyRole::training},
                              {"pretraining_tp", KeyRole::inert}};
  out.insert(out.end(), own.begin(), own.end());
  return out;
}
// For decoders without biases, and for those without norms of queries and keys. All except gpt2 have no
// learned positions, and all are causal.
const std::vector<std::string_view> kBiases = {"attention_bias",     "mlp_bias",
                                               "use_bias",           "bias",
                                               "qkv_bias",           "use_qkv_bias",
                                               "attention_out_bias", "attn_bias",
                                               "lm_head_bias"},
                                    kHeadNorms = {"use_qk_norm", "qk_norm", "qk_layernorm"},
                                    kOfDecoders = {"is_decoder", "add_cross_attention", "bidirectional",
                                                   "use_bidirectional_attention"},
                                    kWindow = {"use_sliding_window", "sliding_window"},
                                    kRotary = {"use_rope", "use_rotary", "rotary", "rope"};
std::vector<std::string_view> lacks(std::initializer_list<const std::vector<std::string_view>*> lists) {
  std::vector<std::string_view> out = kOfDecoders;
  for (const auto* list : lists) out.insert(out.end(), list->begin(), list->end());
  return out;
}
constexpr KeyRule kSilu{"hidden_act", KeyRole::fixed, "", R"("silu")", R"(["silu","swish"])"};
constexpr std::string_view kOff = "[false,null]";
constexpr TiedName kTiedHead{"lm_head.weight", "model.embed_tokens.weight"};
}  // namespace

const HfFamily& gpt2() {
  static const HfFamily row{
      .model_type = "gpt2",
      .architecture = "GPT2LMHeadModel",
      .also = {"GPT2Model"},
      .kind = "gpt",
      .prefix = "transformer.",
      .names = {{"transformer.wte.weight", "token.weight"},
                {"transformer.wpe.weight", "position.weight"},
                {"transformer.h.{i}.ln_1.{p}", "blocks.{i}.norm1.{p}"},
                {"transformer.h.{i}.attn.c_attn.weight", "blocks.{i}.attn.qkv.weight", How::transposed},
                {"transformer.h.{i}.attn.c_attn.bias", "blocks.{i}.attn.qkv.bias"},
                {"transformer.h.{i}.attn.c_proj.weight", "blocks.{i}.attn.out.weight", How::transposed},
                {"transformer.h.{i}.attn.c_proj.bias", "blocks.{i}.attn.out.bias"},
                {"transformer.h.{i}.ln_2.{p}", "blocks.{i}.norm2.{p}"},
                {"transformer.h.{i}.mlp.c_fc.weight", "blocks.{i}.mlp.up.weight", How::transposed},
                {"transformer.h.{i}.mlp.c_fc.bias", "blocks.{i}.mlp.up.bias"},
                {"transformer.h.{i}.mlp.c_proj.weight", "blocks.{i}.mlp.down.weight", How::transposed},
                {"transformer.h.{i}.mlp.c_proj.bias", "blocks.{i}.mlp.down.bias"},
                {"transformer.ln_f.{p}", "norm.{p}"}},
      .tied = {{"lm_head.weight", "transformer.wte.weight"}},
      .left_out = {kMask, kMasked},
      .keys = {{"n_embd", KeyRole::option, "width", "768"},
               {"n_layer", KeyRole::option, "depth", "12"},
               {"n_head", KeyRole::option, "heads", "12"},
               {"n_positions", KeyRole::option, "context", "1024"},
               {"vocab_size", KeyRole::option, "vocab", "50257"},
               {"layer_norm_epsilon", KeyRole::option, "eps", "1e-5"},
               {"resid_pdrop", KeyRole::dropout, "dropout", "0.1"},
               {"embd_pdrop", KeyRole::dropout, "dropout", "0.1"},
               {"attn_pdrop", KeyRole::training, "", "0.1"},
               {"activation_function", KeyRole::fixed, "", R"("gelu_new")",
                R"(["gelu_new","gelu_pytorch_tanh"])"},
               {"scale_attn_weights", KeyRole::fixed, "", "true", "[true]"},
               {"scale_attn_by_inverse_layer_idx", KeyRole::fixed, "", "false", kOff},
               {"add_cross_attention", KeyRole::fixed, "", "false", kOff},
               {"tie_word_embeddings", KeyRole::fixed, "", "true", "[true]"},
               {"reorder_and_upcast_attn", KeyRole::inert},
               {"n_ctx", KeyRole::inert},
               {"summary_activation", KeyRole::inert},
               {"summary_first_dropout", KeyRole::inert},
               {"summary_proj_to_labels", KeyRole::inert},
               {"summary_type", KeyRole::inert},
               {"summary_use_proj", KeyRole::inert}},
      .special = {Special::inner},
      .lacks = lacks({&kHeadNorms, &kWindow, &kRotary})};
  return row;
}

const HfFamily& llama() {
  static const HfFamily row{
      .model_type = "llama",
      .architecture = "LlamaForCausalLM",
      .also = {"LlamaModel"},
      .kind = "llama",
      .prefix = "model.",
      .hidden = "blocks.0.mlp.up.weight",
      .names = {{"model.embed_tokens.weight", "token.weight"},
                {"model.layers.{i}.input_layernorm.weight", "blocks.{i}.norm1.weight"},
                {"model.layers.{i}.self_attn.q_proj.weight", "blocks.{i}.attn.q.weight"},
                {"model.layers.{i}.self_attn.k_proj.weight", "blocks.{i}.attn.k.weight"},
                {"model.layers.{i}.self_attn.v_proj.weight", "blocks.{i}.attn.v.weight"},
                {"model.layers.{i}.self_attn.o_proj.weight", "blocks.{i}.attn.out.weight"},
                {"model.layers.{i}.post_attention_layernorm.weight", "blocks.{i}.norm2.weight"},
                {"model.layers.{i}.mlp.gate_proj.weight", "blocks.{i}.mlp.gate.weight"},
                {"model.layers.{i}.mlp.up_proj.weight", "blocks.{i}.mlp.up.weight"},
                {"model.layers.{i}.mlp.down_proj.weight", "blocks.{i}.mlp.down.weight"},
                {"model.norm.weight", "norm.weight"},
                {"lm_head.weight", "head.weight"}},
      .tied = {kTiedHead},
      .left_out = {kFrequencies},
      .keys = rotary_keys({{"num_key_value_heads", KeyRole::option, "kv_heads"},
                           {"head_dim", KeyRole::option, "head_dim"},
                           {"rms_norm_eps", KeyRole::option, "eps", "1e-6"},
                           {"rope_theta", KeyRole::option, "rope_theta", "10000.0"},
                           {kRopeFactor, KeyRole::option, "rope_factor", "1.0"},
                           {kRopeLow, KeyRole::option, "rope_low", "1.0"},
                           {kRopeHigh, KeyRole::option, "rope_high", "4.0"},
                           {kRopeOriginal, KeyRole::option, "rope_original", "0"},
                           kSilu,
                           {"attention_bias", KeyRole::fixed, "", "false", kOff},
                           {"mlp_bias", KeyRole::fixed, "", "false", kOff},
                           {"tie_word_embeddings", KeyRole::option, "tied", "false"}}),
      .special = {Special::rope},
      .lacks = lacks({&kBiases, &kHeadNorms, &kWindow})};
  return row;
}

namespace {
HfFamily qwen(std::string_view type, std::string_view architecture, std::string_view bare,
              std::string_view version, std::vector<KeyRule> own) {
  own.insert(own.end(), {{"num_key_value_heads", KeyRole::option, "kv_heads", "32"},
                         {"rms_norm_eps", KeyRole::option, "eps", "1e-6"},
                         {"rope_theta", KeyRole::option, "rope_theta", "10000.0"},
                         {"tie_word_embeddings", KeyRole::option, "tied", "false"},
                         kSilu,
                         {"sliding_window", KeyRole::inert},
                         {"max_window_layers", KeyRole::inert}});
  return {.model_type = type,
          .architecture = architecture,
          .also = {bare},
          .kind = "qwen",
          .version = version,
          .prefix = "model.",
          .hidden = "model.layers.0.mlp.up_proj.weight",
          .names = rotary_names(),
          .tied = {kTiedHead},
          .left_out = {kFrequencies},
          .renamed = {},
          .keys = rotary_keys(own),
          .special = {Special::rope, Special::window},
          .lacks = version == "3" ? lacks({&kBiases}) : lacks({&kHeadNorms})};
}
}  // namespace

const HfFamily& qwen2() {
  static const HfFamily row =
      qwen("qwen2", "Qwen2ForCausalLM", "Qwen2Model", "2", {{"head_dim", KeyRole::option, "head_dim"}});
  return row;
}

const HfFamily& qwen3() {
  static const HfFamily row = qwen("qwen3", "Qwen3ForCausalLM", "Qwen3Model", "3",
                                   {{"head_dim", KeyRole::option, "head_dim", "128"},
                                    {"attention_bias", KeyRole::fixed, "", "false", kOff}});
  return row;
}

const HfFamily& mistral() {
  static const HfFamily row{.model_type = "mistral",
                            .architecture = "MistralForCausalLM",
                            .also = {"MistralModel"},
                            .kind = "mistral",
                            .prefix = "model.",
                            .hidden = "model.layers.0.mlp.up_proj.weight",
                            .names = rotary_names(),
                            .left_out = {kFrequencies},
                            .keys = rotary_keys({{"num_key_value_heads", KeyRole::option, "kv_heads", "8"},
                                                 {"head_dim", KeyRole::option, "head_dim"},
                                                 {"sliding_window", KeyRole::option, "window", "4096"},
                                                 {"rms_norm_eps", KeyRole::option, "eps", "1e-6"},
                                                 {"rope_theta", KeyRole::option, "rope_theta", "10000.0"},
                                                 kSilu,
                                                 {"tie_word_embeddings", KeyRole::fixed, "", "false", kOff}}),
                            .special = {Special::rope},
                            .lacks = lacks({&kBiases, &kHeadNorms})};
  return row;
}

const HfFamily& gemma() {
  static const HfFamily row{
      .model_type = "gemma",
      .architecture = "GemmaForCausalLM",
      .also = {"GemmaModel"},
      .kind = "gemma",
      .prefix = "model.",
      .hidden = "model.layers.0.mlp.up_proj.weight",
      .names = rotary_names(),
      .tied = {kTiedHead},
      .left_out = {kFrequencies},
      .keys = rotary_keys(
          {{"num_key_value_heads", KeyRole::option, "kv_heads", "16"},
           {"head_dim", KeyRole::option, "head_dim", "256"},
           {"rms_norm_eps", KeyRole::option, "eps", "1e-6"},
           {"rope_theta", KeyRole::option, "rope_theta", "10000.0"},
           // In Gemma's first files "gelu" means the tanh form.
           {"hidden_act", KeyRole::fixed, "", R"("gelu_pytorch_tanh")", R"(["gelu_pytorch_tanh","gelu"])"},
           {"hidden_activation", KeyRole::fixed, "", "null", R"([null,"gelu_pytorch_tanh"])"},
           {"attention_bias", KeyRole::fixed, "", "false", kOff},
           {"use_bidirectional_attention", KeyRole::fixed, "", "null", kOff},
           {"tie_word_embeddings", KeyRole::fixed, "", "true", "[true]"}}),
      .special = {Special::rope},
      .lacks = lacks({&kBiases, &kHeadNorms, &kWindow})};
  return row;
}

}  // namespace lockstep::launcher::hf
