// Data options: the config's "data" object; and how checkpoints and other ranks identify a data file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launcher::data {

// One of several sources, and its share of the samples.
struct DataSource {
  std::vector<std::string> paths;
  double weight = 1;
  std::string text_key = {}, prompt_key = {}, completion_key = {}, messages_key = {}, label_key = {},
              pair_key = {};  // "": those of DataOptions
};

// How pictures become samples (image_samples.h).
struct PictureOptions {
  std::string crop = "center";  // center | random | resized
  double crop_share = 0.875;    // for random: the crop's side as a share of the largest that fits
  bool flip = false;            // half of the training samples are mirrored
  std::vector<double> mean = {0}, deviation = {1};  // per channel, or one value for all
};

// What to read. The members have the names of the config's "data" object.
struct DataOptions {
  std::string kind = "text";             // text | tokens | jsonl | images | arrays
  std::vector<std::string> paths = {};   // files, folders (recursively), patterns with * ? and **
  std::vector<DataSource> sources = {};  // instead of paths: several, mixed by weight (mixture.h)
  std::string tokenizer = "bytes";       // for text: bytes, or a tokenizer.json of Hugging Face
  std::string dtype = "uint16";          // of kind tokens: uint16 (u16) | uint32 (u32)
  std::string order = "shuffle";         // shuffle | sequential
  double validation = 0.0;               // the last fraction of each file, in [0, 1)
  int64_t vocab = 256;                   // every token read must be below it
  int64_t context = 128;                 // tokens per sequence; a sample reads one more, the last target
  uint64_t seed = 0;                     // keys order shuffle
  bool raw = false;  // kind text: also reads files of records (.jsonl, .csv, ...) as plain bytes; kind
                     // tokens: skips the check of the bytes (token_form.h)
  int64_t read_whole =
      int64_t{16}
      << 30;  // data up to this many bytes is read whole when opened, larger data in blocks (scan.h)
  std::string cache = {};    // folder of cached results (scan.h, token_store.h); "": none
  std::string eos = "auto";  // for text with a tokenizer: the token that ends a document (end_token.h)
  // For jsonl: the members of a record, the chat template (record.h), and how documents become rows:
  // documents (several per row, kept apart), none (one per row), stream (joined to one text).
  std::string text_key = "text", prompt_key = "prompt", completion_key = "completion",
              messages_key = "messages", chat_template = "chatml", pack = "documents";
  // For jsonl with classes: members of a record (and of its second text, if any), and the class names in
  // order.
  std::string label_key = "label", pair_key = "text_pair";
  std::vector<std::string> classes = {};
  bool of_several = false;  // one of the sources of a mixture
  PictureOptions image = {};
};

// How a checkpoint and other ranks identify a data file.
struct DataFile {
  std::string
      // without its folder, so that data can be moved; " #2" is appended for a second file of the same name
      name;
  int64_t tokens = 0;
  std::string fingerprint;  // 16 hex digits over name, size and content
};

}  // namespace lockstep::launcher::data
