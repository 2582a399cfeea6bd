// The section "data" of a config: every key with its default, its help and its rule.
#pragma once

#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct DataConfig {
  std::string kind = key(&kind, "data.kind", "text",
                         "text: files as one text; tokens: files of token ids; jsonl: a record a line, of "
                         "text, prompt and completion, or chat messages; arrays: "
                         "a file NAME.npy for each field of a sample",
                         one_of({"text", "tokens", "jsonl", "arrays"}));
  std::vector<std::string> paths = key(
      &paths, "data.paths", {}, "files, directories or globs; a file is read once", at_most_values(100000));
  std::string tokenizer = key(
      &tokenizer, "data.tokenizer", "bytes",
      "how text becomes tokens; bytes: a byte is a token; else a tokenizer.json of Hugging Face (BPE: gpt2, "
      "llama, qwen, mistral, gemma), or a folder that has one");
  std::string eos = key(&eos, "data.eos", "auto",
                        "text by a tokenizer.json: the token that ends a document; auto: the eos_token of a "
                        "tokenizer_config.json beside it, else <|endoftext|>, <|end_of_text|>, </s>, <eos>, "
                        "...; none: no token");
  std::string text = key(&text, "data.text", "text", "jsonl: the member of a record that holds its text");
  std::string prompt =
      key(&prompt, "data.prompt", "prompt", "jsonl: the member with what is given, which is not learnt");
  std::string completion = key(&completion, "data.completion", "completion",
                               "jsonl: the member with what is to be learnt behind it");
  std::string messages =
      key(&messages, "data.messages", "messages",
          "jsonl: the member with a conversation, a list of {role, content}; what the role assistant says is "
          "learnt");
  std::string chat_template = key(&chat_template, "data.template", "chatml",
                                  "jsonl: what stands around messages; chatml: <|im_start|>ROLE ... "
                                  "<|im_end|>, as Qwen; llama3: <|start_header_id|>ROLE ... <|eot_id|>");
  std::string pack = key(&pack, "data.pack", "documents",
                         "jsonl: how rows of model.context tokens are made; documents: several records in a "
                         "row, which do not see one another, positions from 0 in each; none: a record in a "
                         "row; stream: all records of a file as one text",
                         one_of({"documents", "none", "stream"}));
  std::string dtype = key(&dtype, "data.dtype", "uint16", "tokens: width of an id in raw files",
                          one_of({"uint16", "uint32"}));
  std::string order = key(&order, "data.order", "shuffle",
                          "shuffle: a permutation that depends on train.seed alone; sequential: sequence i "
                          "of step t starts at token (t * "
                          "global + i) * context",
                          one_of({"shuffle", "sequential"}));
  double validation = key(&validation, "data.validation", 0.0,
                          "share of each file, at its end, that is kept for validation", from_below(0, 1));
  bool raw = key(&raw, "data.raw", false,
                 "text: true takes the bytes of files of records too (.jsonl, .json, .csv, .parquet, "
                 "compressed, ...), quotes, names and braces "
                 "with them; false refuses these");
  std::string fingerprint =
      key(&fingerprint, "data.fingerprint", "16GiB",
          "data of up to so many bytes is read whole before step 1, once until a file changes: for the "
          "fingerprint that finds "
          "changed data, and for ids that model.vocab does not have; of more data, blocks of 64 KiB");
};

}  // namespace lockstep::launcher
