// PlanRequest: prints and parses a request as one line of JSON.
#include "launcher/plan/request.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher {

std::string text(const PlanRequest& r) {
  return Json{{"name", r.name}, {"nproc", r.nproc},   {"memory", r.memory},   {"roofline", r.roofline},
              {"json", r.json}, {"whole", r.whole},   {"program", r.program}, {"listing", r.listing},
              {"rank", r.rank}, {"answer", r.answer}, {"graph", r.graph}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

PlanRequest plan_request(const std::string& text) try {
  const Json json = bounded_json(text);
  PlanRequest out;
  out.name = json.at("name").get<std::string>();
  out.nproc = json.at("nproc").get<int64_t>();
  out.memory = json.at("memory").get<int64_t>();
  out.roofline = json.at("roofline").get<std::string>();
  out.json = json.at("json").get<bool>(), out.whole = json.at("whole").get<bool>();
  out.program = json.at("program").get<bool>(), out.listing = json.at("listing").get<bool>();
  out.graph = json.at("graph").get<bool>();
  out.rank = json.at("rank").get<int64_t>();
  out.answer = json.at("answer").get<std::string>();
  return out;
} catch (const Json::exception&) {
  throw UserError("LOCKSTEP_PLAN is what trainrun plan sets for a program; unset it");
}

}  // namespace lockstep::launcher
