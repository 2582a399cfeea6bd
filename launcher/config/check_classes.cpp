// Checks of the classes that data.classes lists.
#include "launcher/config/check_classes.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::launcher {

void check_classes(const RunConfig& c, std::vector<std::string>& errors) {
  const std::vector<std::string>& names = c.data.classes;
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto first = std::find(names.begin(), names.end(), names[i]) - names.begin();
        static_cast<size_t>(first) != i)
      errors.push_back(str("data.classes lists \"", shortened(printable(names[i]), 60), "\" as class ", first,
                           " and as class ", i, "; give each class a name of its own"));
  const int64_t classes = c.model.integer("classes");
  if (!names.empty() && classes > 0 && static_cast<int64_t>(names.size()) != classes)
    errors.push_back(str("data.classes lists ", names.size(), names.size() == 1 ? " class" : " classes",
                         ", and model.classes is ", classes, "; set model.classes to ", names.size()));
}

}  // namespace lockstep::launcher
