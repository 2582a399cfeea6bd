// TensorBoard's event files: the numbers of metrics rows as scalars, in the published wire format of Event
// and Summary, records framed with masked CRC-32C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/plain_file.h"
#include "launcher/report/metrics.h"

namespace lockstep::launcher {

uint32_t crc32c(std::string_view bytes);         // Castagnoli
uint32_t masked_crc32c(std::string_view bytes);  // as records carry it
// length, its checksum, the bytes, theirs.
std::string event_record(std::string_view event);

// The tag under which a number of a metrics row is shown: "train/loss", "validation/val_loss",
// "pace/step_ms", "grad_norm/blocks.0.attn.qkv.weight".
std::string tag_of(const std::string& name);

// Event messages, without their frame. `seconds`: since 1970.
std::string file_version_event(double seconds);
// A run (re)starts: readers forget what they have of `step` and later steps.
std::string start_event(double seconds, int64_t step);
std::string scalars_event(double seconds, const MetricsRow& row);

class EventWriter {
 public:
  // A new file events.out.tfevents.TIME.HOST.PID in `folder`, whose name sorts behind those that are there.
  // Its first records say that what older files have of steps after `resume_step` is not valid any more.
  // UserError naming the file where it cannot be written.
  EventWriter(const std::string& folder, int64_t resume_step);
  // Says how many rows are lost where some are.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  // Appends the row's numbers. Where the disk does not take them a warning says so once, the file ends with
  // its last whole record, and the row is lost to it: metrics.jsonl has it.
  void write(const MetricsRow& row);
  const std::string& path() const { return path_; }

 private:
  int append(const std::string& record);  // 0, or the errno

  std::string path_;
  Descriptor file_;
  int64_t bytes_ = 0;  // of whole records
  int64_t lost_ = 0;
};

}  // namespace lockstep::launcher
