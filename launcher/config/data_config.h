// The section "data" of a config: every key with its default, its help and its rule.
#pragma once

#include <string>
#include <vector>

#include "core/base/key.h"
#include "launcher/config/source_row.h"

namespace lockstep::launcher {

struct ImageConfig {
  std::string crop = key(&crop, "data.image.crop", "center",
                         "images: the crop in training; center: the largest square; random: "
                         "data.image.crop_share of it, anywhere; resized: 0.08 to 1 of the area, 3:4 to 4:3",
                         one_of({"center", "random", "resized"}));
  double crop_share =
      key(&crop_share, "data.image.crop_share", 0.875,
          "images: with crop random, the crop's side as a share of the largest", between(0.05, 1));
  bool flip = key(&flip, "data.image.flip", false, "images: mirror half of the training samples");
  std::vector<double> mean =
      key(&mean, "data.image.mean", {0},
          "images: mean that is subtracted from values of 0 to 1; per channel, or one for all");
  std::vector<double> deviation =
      key(&deviation, "data.image.std", {1}, "images: standard deviation by which the difference is divided",
          above(0));
};

struct DataConfig {
  std::string kind = key(&kind, "data.kind", "text",
                         "text: files as one text; tokens: files of token ids; jsonl: a record a line; "
                         "images: folders of PNG and JPEG files, a class each; arrays: NumPy arrays",
                         one_of({"text", "tokens", "jsonl", "images", "arrays"}));
  std::vector<std::string> paths =
      key(&paths, "data.paths", {},
          "files, directories or globs, or @FILE: a list of them, one per line; each file is read once",
          at_most_values(100000));
  std::vector<SourceRow> sources =
      key(&sources, "data.sources", {},
          "instead of data.paths: rows of paths and weight, and of text, prompt, completion, messages or "
          "label where records name them otherwise; each source gives its share of the samples");
  std::string tokenizer =
      key(&tokenizer, "data.tokenizer", "bytes",
          "bytes: a byte is a token; else a tokenizer.json of Hugging Face (BPE, Unigram, WordPiece), a "
          "tokenizer.model of SentencePiece, or a folder that has one");
  std::string eos = key(&eos, "data.eos", "auto",
                        "text by a tokenizer.json: the token that ends a document; auto: the eos_token of a "
                        "tokenizer_config.json beside it, else <|endoftext|>, <|end_of_text|>, </s>, <eos>, "
                        "...; none: no token");
  std::string text = key(&text, "data.text", "text", "jsonl: the member of a record with its text");
  std::string prompt =
      key(&prompt, "data.prompt", "prompt", "jsonl: the member with the prompt, which is not learnt");
  std::string completion = key(&completion, "data.completion", "completion",
                               "jsonl: the member with the completion, which is learnt");
  std::string messages = key(&messages, "data.messages", "messages",
                             "jsonl: the member with a conversation, a list of {role, content} or {from, "
                             "value}; what the assistant says is learnt; records of Alpaca are read as one");
  std::string label = key(
      &label, "data.label", "label",
      "jsonl, task.kind classification: the member with the class of a record's text, an integer from 0 on "
      "or a name");
  std::string text_pair = key(&text_pair, "data.text_pair", "text_pair",
                              "jsonl, task.kind classification: the member with a record's second text, as a "
                              "hypothesis or a question; a record without it is of one text (beside "
                              "sentence1 it is sentence2)");
  std::vector<std::string> classes = key(
      &classes, "data.classes", {},
      "jsonl, task.kind classification: the names of the classes in their order, as many as model.classes; "
      "empty: the names in the data, in the order of their bytes");
  std::string chat_template = key(&chat_template, "data.template", "chatml",
                                  "jsonl: the template around messages; chatml: <|im_start|>ROLE ... "
                                  "<|im_end|>, as Qwen; llama3: <|start_header_id|>ROLE ... <|eot_id|>");
  std::string pack =
      key(&pack, "data.pack", "documents",
          "jsonl: rows of model.context tokens; documents: several records, which do not see one another; "
          "none: one record; stream: all records as one text, as masked_lm always reads them",
          one_of({"documents", "none", "stream"}));
  ImageConfig image;
  std::string dtype = key(&dtype, "data.dtype", "uint16", "tokens: width of an id in raw files",
                          one_of({"uint16", "uint32"}));
  std::string order = key(&order, "data.order", "shuffle",
                          "shuffle: a permutation that depends on train.seed alone; sequential: sequence i "
                          "of step t starts at token (t * "
                          "global + i) * context",
                          one_of({"shuffle", "sequential"}));
  double validation = key(&validation, "data.validation", 0.0,
                          "share at the end of each file that is held out for validation", from_below(0, 1));
  bool raw = key(&raw, "data.raw", false,
                 "text: true takes files of records (.jsonl, .csv, ...) as text; tokens: true takes any "
                 "bytes as ids; false refuses what is of another form");
  std::string fingerprint = key(&fingerprint, "data.fingerprint", "16GiB",
                                "data of up to so many bytes is read whole before step 1, to find changes "
                                "and ids beyond model.vocab; of more data, blocks of 64 KiB are read");
};

}  // namespace lockstep::launcher
