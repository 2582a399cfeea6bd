// The files of a JSON Lines data set as documents of tokens, before they become rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/documents/documents.h"

namespace lockstep::launcher::data {

struct DocumentFiles {
  // Opens options.paths. UserError when there is no file, and as DocumentMaker.
  DocumentFiles(const DataOptions& options, DocumentMaker& maker);

  std::vector<TokenStore> stores;
  std::vector<std::string> paths;  // the files, in the order of the stores
  std::vector<DataFile> contents;
  std::string fingerprint, read_as;
  int64_t documents = 0, bytes = 0;
  // template of the conversations among them, from the first million tokens of each file
  std::string chat_template;

  // For each file: the training documents, and after them the round(n * validation) documents held out.
  struct Range {
    int32_t store;
    std::vector<int64_t> starts;  // first token of each document, and the end of the last
    int64_t kept;                 // the first held-out one
  };
  std::vector<Range> ranges(double validation) const;

  // Throws UserError: there is no record, or validation holds out all; otherwise `nothing` says why no
  // document can be trained on: "none has a token to learn: ...".
  [[noreturn]] void refuse_empty(const DataOptions& options, const std::string& nothing) const;
  // Logs how much was tokenized, and the line that describes the data; `rows` is its middle part.
  void tell(const DataOptions& options, const DocumentMaker& maker, const std::string& rows,
            int64_t validation) const;

 private:
  bool holds(int32_t token) const;
};

}  // namespace lockstep::launcher::data
