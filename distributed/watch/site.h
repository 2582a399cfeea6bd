// Texts for errors about a collective: its site (verb, label, type, counts) and the message when its deadline
// passes.
#pragma once

#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// "all_reduce "loss" (f32, 4 elements, sum)"
std::string site_text(const Collective& what, const std::string& label);
// The PeerError text of a wait that lasted too long; `more` adds details of the implementation, such as the
// ranks that have not started.
std::string deadline_text(const std::string& group, int rank, int size, const Collective& what,
                          const std::string& label, double seconds, const std::string& more);

}  // namespace lockstep::distributed
