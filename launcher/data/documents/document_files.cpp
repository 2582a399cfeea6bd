// Turns document files into token stores and logs about them.
#include "launcher/data/documents/document_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "launcher/data/files.h"
#include "launcher/data/scan.h"

namespace lockstep::launcher::data {

DocumentFiles::DocumentFiles(const DataOptions& options, DocumentMaker& maker) {
  const FileList list = find_files(options.paths, ".jsonl");
  std::vector<Source> files;
  int64_t read = 0;
  for (const auto& path : list.files) {
    files.push_back(Source::text(path));
    bytes += files.back().bytes.size();
  }
  if (files.empty())
    throw UserError(str("data.paths: no *.jsonl file in ", join(options.paths, ", "),
                        "; name files with another ending one by one"));
  const ScanPlan plan = scan_plan(bytes, options.read_whole);
  read_as = plan.text();
  std::string all;
  std::map<std::string, int> names;
  for (const auto& file : files) {
    // first, because it reports errors by file and line
    stores.push_back(maker.store(file.bytes, file.path));
    const Scan found = scan_once(file, plan, options.cache, read);
    paths.push_back(file.path);
    std::string name = file.path.substr(file.path.rfind('/') + 1);
    if (int times = ++names[name]; times > 1) name += str(" #", times);
    char hex[20];
    std::snprintf(hex, sizeof hex, "%016llx",
                  static_cast<unsigned long long>(hash64(
                      str(name, " ", file.bytes.size(), " ", found.content, " ", maker.fingerprint()))));
    contents.push_back({name, stores.back().tokens, hex});
    all += str(hex, "\n");
    documents += stores.back().documents;
  }
  fingerprint = hash_hex(all);
  if (const auto message = maker.message_token(); message && holds(*message))
    chat_template = options.chat_template;
}

// Whether this token is among the first tokens of a file.
bool DocumentFiles::holds(int32_t token) const {
  constexpr int64_t kLooked = int64_t{1} << 20;
  std::vector<uint32_t> tokens;
  for (const auto& store : stores) {
    tokens.resize(static_cast<size_t>(std::min(store.tokens, kLooked)));
    store.read(0, tokens);
    for (uint32_t each : tokens)
      if ((each & ~kCounts) == static_cast<uint32_t>(token)) return true;
  }
  return false;
}

std::vector<DocumentFiles::Range> DocumentFiles::ranges(double validation) const {
  std::vector<Range> out;
  for (size_t i = 0; i < stores.size(); ++i) {
    const int64_t n = stores[i].documents, kept = std::llround(static_cast<double>(n) * validation);
    out.push_back({static_cast<int32_t>(i), stores[i].starts(), n - kept});
  }
  return out;
}

void DocumentFiles::refuse_empty(const DataOptions& options, const std::string& nothing) const {
  const std::string where = join(options.paths, ", ");
  if (documents == 0)
    throw UserError(str("data.paths: there is no record in ", where, " (", bytes,
                        " bytes); write records as JSON objects, one a line, or name other files"));
  int64_t left = 0;
  for (const auto& range : ranges(options.validation)) left += range.kept;
  const std::string all =
      str("data.paths: ", documents, documents == 1 ? " record" : " records", " in ", where);
  if (left == 0)
    throw UserError(
        str(all, ", and data.validation, ", options.validation,
            ", keeps all of them (of each file the last, rounded): none is left to train on; keep "
            "fewer, or give more records"));
  throw UserError(str(all, ", and of the ", left, " to train on ", nothing));
}

void DocumentFiles::tell(const DataOptions& options, const DocumentMaker& maker, const std::string& rows,
                         int64_t validation) const {
  if (maker.made && maker.seconds > 1)
    logs::info(str("data: ", bytes_text(static_cast<double>(maker.made)), " of JSON lines tokenized in ",
                   static_cast<int64_t>(maker.seconds + 0.5), " s",
                   options.cache.empty() ? "" : str("; kept in ", options.cache, " until a file changes")));
  for (const auto& line : maker.unread()) logs::info("warning: " + line);
  if (options.validation > 0 && validation == 0)
    logs::info(str("warning: data.validation: ", options.validation, " keeps no record of ", documents,
                   ": there will be no validation loss; keep more, or set it to 0"));
  logs::info(str("data: ", stores.size(), stores.size() == 1 ? " file, " : " files, ", bytes, " bytes, ",
                 documents, " records; ", rows, ", order ", options.order, ", fingerprint ", fingerprint));
}

}  // namespace lockstep::launcher::data
