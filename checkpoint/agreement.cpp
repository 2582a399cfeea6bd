// Agreement: sorts errors by kind and picks the worst over all ranks.
#include "checkpoint/agreement.h"

#include <algorithm>
#include <cerrno>

#include "checkpoint/format/damage.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

WorkOutcome attempt(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const DamagedError& e) { return {Verdict::damaged, e.what()}; } catch (const StorageError& e) {
    return {e.access_denied() ? Verdict::refused : Verdict::damaged, e.what()};
  } catch (const UserError& e) { return {Verdict::refused, e.what()}; } catch (const std::exception& e) {
    return {Verdict::failed, e.what()};
  }
}

WorkOutcome attempt_save(const std::function<void()>& work) {
  std::string unwritten;
  WorkOutcome out = attempt([&] {
    try {
      work();
    } catch (const StorageError& e) {
      if (e.code == EWOULDBLOCK) throw;
      unwritten = e.what();
    }
  });
  return unwritten.empty() ? out : WorkOutcome{Verdict::unwritten, unwritten};
}

WorkOutcome settle(Group& world, const WorkOutcome& mine) {
  int64_t worst = static_cast<int64_t>(mine.verdict);
  all_reduce(world, {&worst, &worst, 1, DType::i64, ReduceOp::max}, "checkpoint agreement");
  if (worst == 0) return {};
  Verdict verdict = static_cast<Verdict>(worst);
  auto texts = all_gather_text(world, mine.verdict == verdict ? mine.text : "");
  bool same =
      std::all_of(texts.begin(), texts.end(), [&](const std::string& text) { return text == texts[0]; });
  if (same && !texts[0].empty()) return {verdict, texts[0]};
  for (int rank = 0; rank < world.size(); ++rank)
    if (!texts[rank].empty()) return {verdict, str("rank ", rank, ": ", texts[rank])};
  return {verdict, "an error without a text"};
}

void raise(const WorkOutcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::ok:
      return;
    case Verdict::damaged:
      throw DamagedError(outcome.text);
    case Verdict::unwritten:
      throw NotSaved(outcome.text);
    case Verdict::refused:
      throw UserError(outcome.text);
    case Verdict::failed:
      throw InternalError(outcome.text);
  }
}

}  // namespace lockstep::checkpoint
