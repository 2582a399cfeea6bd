// A lock that is an object: made where there is none, renewed while it is held, taken from who is dead.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/storage/s3/client.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// Writes `at` on the condition that it is not there, and renews it four times in a lease, each time on the
// condition that it is as this process wrote it. One that is there is taken over where its process has ended
// on this machine, or where it was not renewed for a lease; ages are differences of the store's own times.
// It is waited for until it is renewed or old enough: then StorageError with code EWOULDBLOCK, naming the
// holder. Removed when it is given back.
std::unique_ptr<FolderLock> take_lock(Client& client, const Address& at, const std::string& folder);

}  // namespace lockstep::checkpoint::s3
