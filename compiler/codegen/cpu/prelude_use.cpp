// Finds the parts of the prelude that a source uses, and names dtypes in it.
#include "compiler/codegen/cpu/prelude.h"
#include "core/base/error.h"

namespace lockstep::compiler::cpu {

namespace {

// The part that defines a name: ls_load_bf16 is in ls_memory_bf16, ls_within in ls_guard.
std::string_view home_of(std::string_view word) {
  for (std::string_view verb : {"ls_load_n_", "ls_load_", "ls_store_n_", "ls_store_", "ls_get_", "ls_put_",
                                "ls_full_", "ls_unpack_", "ls_pack_", "ls_round_"})
    if (word.starts_with(verb)) {
      for (const char* dtype : {"f32", "f64", "i32", "i64", "u8", "u16", "u32", "u64", "bf16", "f16", "bool",
                                "f8_e4m3", "f8_e5m2"})
        if (word.substr(verb.size()) == dtype)
          for (const auto& part : prelude_parts())
            if (part.name.starts_with("ls_memory_") && part.name.substr(10) == dtype) return part.name;
    }
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"ls_within", "ls_guard"},
      {"ls_clamp_rows", "ls_numbers"},
      {"ls_minimum", "ls_maximum"},
      {"ls_shr", "ls_shl"},
      {"ls_best_of", "ls_best"},
      {"ls_uniform", "ls_random"},
      {"ls_random_run", "ls_random"},
      {"ls_exp_q", "ls_exp"},
      {"ls_log_of", "ls_log"},
      {"ls_turn", "ls_sin"},
      {"ls_from_bits_bf16", "ls_bits_bf16"},
      {"ls_from_bits_f16", "ls_bits_f16"}};
  for (const auto& [from, to] : kOthers)
    if (word == from) return to;
  if (word.starts_with("ls_from_bits_")) return "ls_bits";
  if (word.starts_with("ls_bits_") && word != "ls_bits_bf16" && word != "ls_bits_f16") return "ls_bits";
  return word;
}

void collect(std::string_view source, std::set<std::string_view>& used) {
  auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t i = 0; i < source.size();) {
    if (!is_word(source[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < source.size() && is_word(source[end])) ++end;
    std::string_view word = source.substr(i, end - i);
    i = end;
    if (!word.starts_with("ls_") && !word.starts_with("LS_")) continue;
    std::string_view home = home_of(word);
    for (const auto& part : prelude_parts())
      if (part.name == home && used.insert(part.name).second) collect(part.text, used);
  }
}

}  // namespace

std::string prelude_for(std::string_view source) {
  std::set<std::string_view> used;
  collect(source, used);
  std::string out(prelude_types());
  for (const auto& part : prelude_parts())
    if (used.count(part.name)) out += part.text;
  return out;
}

std::string_view register_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return "vf";
    case DType::f64:
      return "vd";
    case DType::i32:
    case DType::boolean:
      return "vi";
    case DType::i64:
      return "vl";
    case DType::u8:
    case DType::f8_e4m3:  // only its bits: nothing computes with them
    case DType::f8_e5m2:
      return "vub";
    case DType::u16:
      return "vuh";
    case DType::u32:
      return "vu";
    case DType::u64:
      return "vul";
  }
  throw InternalError(str("no kernel computes with ", name(dtype)));
}
std::string_view memory_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::bf16:
    case DType::f16:
      return "u16";
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return "u8";
    default:
      return name(dtype);
  }
}
std::string_view lane_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return "float";
    case DType::f64:
      return "double";
    case DType::boolean:
      return "i32";
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return "u8";
    default:
      return name(dtype);
  }
}

}  // namespace lockstep::compiler::cpu
