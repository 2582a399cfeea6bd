// Exchanges and compares sites between neighbouring ranks.
#include "distributed/mpi/mpi_site.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "distributed/mpi/mpi_types.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

namespace {
// The text that must be equal on all ranks. Parts of an all_to_all may differ.
std::string common(const Collective& what, const std::string& label) {
  if (auto* exchange = std::get_if<AllToAll>(&what))
    return str(name(what), " ", label, " ", name(exchange->dtype));
  return site_text(what, label);
}
void check(int code, const char* what) {
  if (code != MPI_SUCCESS)
    throw PeerError(str("the check of order: ", what, " failed: ", mpi_error_text(code)));
}
}  // namespace

MpiSite::MpiSite(std::shared_ptr<MpiOrder> order, const Collective& what, const std::string& label,
                 int64_t number)
    : order_(std::move(order)) {
  const std::string words = site_text(what, label);
  mine_.hash = hash64(common(what, label));
  mine_.number = number;
  std::memcpy(mine_.words, words.data(), std::min(words.size(), sizeof mine_.words - 1));
}

void MpiSite::begin(MPI_Comm comm, int rank, int size) {
  place_ = order_->taken++;
  check(MPI_Irecv(&theirs_, sizeof theirs_, MPI_BYTE, (rank - 1 + size) % size, kTag, comm, &requests_[0]),
        "a receive");
  check(MPI_Isend(&mine_, sizeof mine_, MPI_BYTE, (rank + 1) % size, kTag, comm, &requests_[1]), "a send");
}

bool MpiSite::may_issue(const std::string& group, int rank, int size) {
  if (!here_) {
    int flag = 0;
    check(MPI_Testall(2, requests_, &flag, MPI_STATUSES_IGNORE), "a test");
    if (!flag) return false;
    here_ = true;
    const int other = (rank - 1 + size) % size;
    if (theirs_.hash != mine_.hash) {
      auto started = [](int of, const Message& message) {
        return str("rank ", of, " started ", message.words);
      };
      throw PeerError(str("group \"", group, "\": collective ", mine_.number,
                          " differs: ", rank < other ? started(rank, mine_) : started(other, theirs_), ", ",
                          rank < other ? started(other, theirs_) : started(rank, mine_),
                          "; all ranks must start the same collectives in the same order"));
    }
  }
  if (order_->issued != place_) return false;
  ++order_->issued;
  return true;
}

}  // namespace lockstep::distributed
