// Reports once all changes of a resumed run since its checkpoint.
#pragma once

#include <set>
#include <string>

#include "checkpoint/checkpoint.h"
#include "launcher/config/config.h"
#include "launcher/data/samples.h"

namespace lockstep::launcher {

// Facts about the run's environment that a checkpoint stores for this comparison: SaveInfo::extra.
Json remembered(const data::Samples& data, const std::string& library);

// Compares config, data and certificate with the checkpoint's; rank 0 (`speaks`) warns of each difference and
// its effect on bits. UserError on all ranks if the config turns the checkpoint's weights into another model,
// or the data gives its logits other classes, unless resume.allow names it.
void tell_changes(const checkpoint::LoadedInfo& loaded, const RunConfig& config, const data::Samples& data,
                  const std::string& certificate, bool speaks);

// Warns once of each data file that was modified since the run opened it: its content no longer matches the
// checkpoint's fingerprint.
void tell_rewritten(const data::Samples& data, std::set<std::string>& told);

}  // namespace lockstep::launcher
