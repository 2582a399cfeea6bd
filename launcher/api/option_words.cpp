// Rewords messages about config keys to a program's options.
#include "launcher/api/option_words.h"

#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/reading/one_line.h"
#include "launcher/api/train_options.h"
#include "launcher/config/run_names.h"

namespace lockstep {

std::string in_options(std::string text) {
  using Words = std::vector<std::pair<std::string_view, std::string_view>>;
  static const Words words = [] {
    Words out{{"Lower optim.lr, or clip more (optim.clip)", "Lower the learning rate, or clip the gradients"},
              {"another --name traces a run of its own",
               "another folder of the run (run= of train()) is traced anew"},
              {"optim.moments", "moments"},
              {"train.eval_every", "validation.every"}};
    each_train_option([&](std::string_view name, std::string_view key, auto...) {
      // keys of compile are written in another way: 2GiB, none
      if (!key.empty() && !key.starts_with("compile.")) out.emplace_back(key, name);
    });
    for (const char* section : {"train.", "checkpoint.", "log.", "verify."}) out.emplace_back(section, "");
    return out;
  }();
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
