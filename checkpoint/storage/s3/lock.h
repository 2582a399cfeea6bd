// A lock stored as an object: created if absent, renewed while it is held, and taken over from a dead holder.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/storage/s3/client.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// Writes `at` only if it does not exist, and renews it four times per lease, each time only if it is
// unchanged. An existing lock is taken over if its process has ended on this machine, or if it was not
// renewed for a lease; ages are differences of the store's own times. Waits until an existing lock is old
// enough or renewed; a renewed one gives a StorageError with code EWOULDBLOCK, naming the holder. The object
// is removed on release.
std::unique_ptr<FolderLock> take_lock(Client& client, const Address& at, const std::string& folder);

}  // namespace lockstep::checkpoint::s3
