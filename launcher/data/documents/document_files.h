// The files of a data set of JSON lines as documents of tokens, whatever rows are made of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/documents/documents.h"

namespace lockstep::launcher::data {

struct DocumentFiles {
  // Of options.paths. UserError where there is no file, and as DocumentMaker.
  DocumentFiles(const DataOptions& options, DocumentMaker& maker);

  std::vector<TokenStore> stores;
  std::vector<std::string> paths;  // of the files, in the order of the stores
  std::vector<DataFile> contents;
  std::string fingerprint, read_as;
  int64_t documents = 0, bytes = 0;
  std::string chat_template;  // of the conversations among them, by the first million tokens of each file

  // Of each file the documents that are trained on, and those behind, round(n * validation), which are kept.
  struct Range {
    int32_t store;
    std::vector<int64_t> starts;  // tokens at which documents begin, and their end
    int64_t kept;                 // the first that is kept
  };
  std::vector<Range> ranges(double validation) const;

  // UserError: there is no record, or validation keeps all; else `nothing` says of those to train on why none
  // of them is: "none has a token to learn: ...".
  [[noreturn]] void refuse_empty(const DataOptions& options, const std::string& nothing) const;
  // Logs how much was tokenized, and the line that says what is read; `rows` is its middle part.
  void tell(const DataOptions& options, const DocumentMaker& maker, const std::string& rows,
            int64_t validation) const;

 private:
  bool holds(int32_t token) const;
};

}  // namespace lockstep::launcher::data
