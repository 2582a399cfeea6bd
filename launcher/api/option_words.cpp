// Rewords messages about config keys to a program's options.
#include "launcher/api/option_words.h"

#include <cctype>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/reading/one_line.h"
#include "launcher/config/run_names.h"

namespace lockstep {

std::string in_options(std::string text) {
  static const std::pair<std::string_view, std::string_view> words[] = {
      {"Lower optim.lr, or clip more (optim.clip)", "Lower the learning rate, or clip the gradients"},
      {"another --name traces a run of its own",
       "another folder of the run (run= of train()) is traced anew"},
      {"batch.global", "global_batch"},
      {"batch.micro", "micro_batch"},
      {"batch.lanes", "lanes"},
      {"checkpoint.every", "save_every"},
      {"checkpoint.async", "save_async"},
      {"log.every", "report_every"},
      {"optim.offload", "offload_moments"},
      {"optim.moments", "moments"},
      {"train.eval_every", "validation.every"},
      {"train.", ""},
      {"checkpoint.", ""},
      {"log.", ""},
      {"verify.", ""}};
  for (const auto& [key, option] : words)
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + option.size())) {
      const bool whole_word = at == 0 || !(std::isalnum(static_cast<unsigned char>(text[at - 1])) ||
                                           text[at - 1] == '.' || text[at - 1] == '/');
      if (whole_word)
        text.replace(at, key.size(), option);
      else
        ++at;
    }
  return text;
}

void refuse_no_folder(const std::string& what, const std::string& folder) {
  if (const std::string why = launcher::no_folder_path(folder, what); !why.empty()) throw UserError(why);
  if (folder.find_first_not_of('/') != std::string::npos) return;
  throw UserError(str(what, " is \"", shortened(one_line(folder), 60),
                      "\"; it is the folder of the run, as in \"runs/mine\""));
}

}  // namespace lockstep
