// TensorBoard's event files: the numbers of metrics rows as scalars, in the published wire format of Event
// and Summary, records framed with masked CRC-32C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/files/plain_file.h"
#include "launcher/report/metrics.h"

namespace lockstep::launcher {

uint32_t crc32c(std::string_view bytes);         // Castagnoli
uint32_t masked_crc32c(std::string_view bytes);  // in the masked form of records
// length, its checksum, the bytes, their checksum.
std::string event_record(std::string_view event);

// The tag of a metrics row's number: "train/loss", "validation/val_loss", "pace/step_ms",
// "grad_norm/blocks.0.attn.qkv.weight".
std::string tag_of(const std::string& name);

// Event messages, without their frame. `seconds`: since 1970.
std::string file_version_event(double seconds);
// A run (re)starts: readers drop their data of `step` and later steps.
std::string start_event(double seconds, int64_t step);
std::string scalars_event(double seconds, const MetricsRow& row);

class EventWriter {
 public:
  // Creates events.out.tfevents.TIME.HOST.PID in `folder`, whose name sorts after existing ones. Its first
  // records invalidate steps after `resume_step` in older files. UserError naming the file when it cannot be
  // written.
  EventWriter(const std::string& folder, int64_t resume_step);
  // Reports the number of lost rows, if any.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  // Appends the row's numbers. After a write error it warns once, truncates the file to its last complete
  // record, and loses the row here; metrics.jsonl still has it.
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
