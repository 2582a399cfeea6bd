// A run that is resumed: everything that is not as it was at its checkpoint, said once.
#pragma once

#include <set>
#include <string>

#include "checkpoint/checkpoint.h"
#include "launcher/config/config.h"
#include "launcher/data/samples.h"

namespace lockstep::launcher {

// What a checkpoint remembers of the run's surroundings, for the comparison: SaveInfo::extra.
Json remembered(const data::Samples& data, const std::string& library);

// Compares config, data and certificate with the checkpoint's; rank 0 (`speaks`) warns of each difference
// with what it does to bits. UserError on all ranks alike where the config makes another model of the
// checkpoint's weights, or the data other classes of its logits, and resume.allow does not name it.
void tell_changes(const checkpoint::LoadedInfo& loaded, const RunConfig& config, const data::Samples& data,
                  const std::string& certificate, bool speaks);

// Warns, once each, of data files that were written to since the run opened them: what it reads of them is no
// longer what the checkpoint says.
void tell_rewritten(const data::Samples& data, std::set<std::string>& told);

}  // namespace lockstep::launcher
