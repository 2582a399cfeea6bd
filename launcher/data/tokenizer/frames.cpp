// Parses the templates of the post_processor.
#include "launcher/data/tokenizer/frames.h"

#include "core/base/error.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
using Json = nlohmann::json;
using Frame = Tokenizer::Frame;

// The ids of a template's special token.
void put_special(const Json& piece, const Json& known, const std::string& where, std::vector<int32_t>& to) {
  const std::string token = word_in(piece, "id", where);
  for (const auto& id : list_in(object_in(known, token.c_str(), where), "ids", where))
    to.push_back(id_in(id, "ids", where));
}

int32_t segment_of(const Json& piece, const std::string& where) {
  const int64_t segment = piece.contains("type_id") ? number_in(piece, "type_id", where) : 0;
  if (segment < 0 || segment > 1)
    throw UserError(str(where, ": a type_id is ", segment, ", and segments 0 and 1 are read"));
  return static_cast<int32_t>(segment);
}

void read_single(const Json& pieces, const Json& known, const std::string& where, Frames& out) {
  std::vector<int32_t>* to = &out.before;
  for (const auto& piece : pieces) {
    if (piece.contains("SpecialToken"))
      put_special(object_in(piece, "SpecialToken", where), known, where, *to);
    else if (object_in(piece, "Sequence", where).is_object())
      to = &out.behind;
  }
}

Frame read_pair(const Json& pieces, const Json& known, const std::string& where) {
  Frame out;
  Frame::Part* const parts[] = {&out.before, &out.between, &out.behind};
  size_t at = 0;  // texts seen so far
  for (const auto& piece : pieces) {
    if (piece.contains("SpecialToken")) {
      const Json& special = object_in(piece, "SpecialToken", where);
      parts[at]->segment = segment_of(special, where);
      put_special(special, known, where, parts[at]->ids);
      continue;
    }
    const Json& text = object_in(piece, "Sequence", where);
    const std::string name = word_in(text, "id", where);
    if (at == 2 || name != (at == 0 ? "A" : "B"))
      throw UserError(str(where, ": the template of two texts is ", shortened(pieces.dump(), 200),
                          ", and A and then B are read, each once"));
    (at == 0 ? out.first : out.second) = segment_of(text, where);
    ++at;
  }
  if (at != 2)
    throw UserError(str(where, ": the template of two texts is ", shortened(pieces.dump(), 200),
                        ", and A and then B are read, each once"));
  return out;
}

// [CLS] A [SEP] B [SEP], or <s> A </s></s> B </s>.
void read_named(const Json& described, const std::string& where, bool roberta, Frames& out) {
  for (auto [name, to] : {std::pair{"cls", &out.before}, std::pair{"sep", &out.behind}})
    if (const auto& row = list_in(described, name, where); row.size() == 2)
      to->push_back(id_in(row[1], name, where));
    else
      throw UserError(
          str(where, ": \"", name, "\" is a list of ", row.size(), ", and should be a token and its id"));
  std::vector<int32_t> between = out.behind;
  if (roberta) between.insert(between.end(), out.behind.begin(), out.behind.end());
  const int32_t second = roberta ? 0 : 1;
  out.pair = Frame{{out.before, 0}, {between, 0}, {out.behind, second}, 0, second};
}
}  // namespace

Frames read_frames(const Json& described, const std::string& where) {
  Frames out;
  const std::string type = word_in(described, "type", where);
  if (type == "Sequence") {
    for (const auto& each : list_in(described, "processors", where)) {
      const Frames own = read_frames(each, where);
      out.before.insert(out.before.end(), own.before.begin(), own.before.end());
      out.behind.insert(out.behind.end(), own.behind.begin(), own.behind.end());
      if (own.pair) out.pair = own.pair;
    }
  } else if (type == "TemplateProcessing") {
    const Json& known = object_in(described, "special_tokens", where);
    read_single(list_in(described, "single", where), known, where, out);
    if (described.contains("pair")) out.pair = read_pair(list_in(described, "pair", where), known, where);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    read_named(described, where, type == "RobertaProcessing", out);
  } else if (type != "ByteLevel") {
    throw UserError(str(where, " is ", type,
                        ", which is not read; TemplateProcessing, RobertaProcessing, BertProcessing, "
                        "ByteLevel and Sequence of them are"));
  }
  return out;
}

}  // namespace lockstep::launcher::data
