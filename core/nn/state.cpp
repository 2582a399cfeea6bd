// State: records, places and materialises tensors.
#include "core/nn/state.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep {

std::string_view name(Role role) {
  switch (role) {
    case Role::parameter:
      return "parameter";
    case Role::moment:
      return "moment";
    case Role::buffer:
      return "buffer";
  }
  return "?";
}

namespace {
bool is_part(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}
// The reason why a checkpoint cannot store a tensor of this name; "" if it can.
std::string misnamed(const std::string& fqn) {
  if (fqn == "__metadata__")
    return "has the name that safetensors files keep for themselves; give it another one";
  const auto parts = split(fqn, '.');
  if (fqn.empty() || !std::all_of(parts.begin(), parts.end(), [](const auto& part) { return is_part(part); }))
    return "is no path: parts of letters, digits, _ and -, with points between them";
  return "";
}
}  // namespace

Scope Scope::operator/(std::string_view part) const {
  if (!is_part(part))
    throw UserError(str("[scope] \"", part, "\" under \"", path_,
                        "\": a part of a path has letters, digits, _ and - only; write at / \"a\" / \"b\" "
                        "for a path of two parts"));
  return {*state_, path_.empty() ? std::string(part) : str(path_, ".", part)};
}
Scope Scope::operator/(int64_t index) const { return *this / std::string_view(str(index)); }

Parameter Scope::parameter(std::string_view name, Shape shape, Init init, Here at) const {
  return state_->record(
      {(*this / name).path(), DType::f32, std::move(shape), init, Role::parameter, true, "", line_of(at)});
}
Parameter Scope::frozen(std::string_view name, Shape shape, Init init, Here at) const {
  return state_->record(
      {(*this / name).path(), DType::f32, std::move(shape), init, Role::parameter, false, "", line_of(at)});
}
Parameter Scope::projection(std::string_view name, Shape shape, Init init, Here at) const {
  Spec spec{
      (*this / name).path(), DType::f32, std::move(shape), init, Role::parameter, true, "", line_of(at)};
  spec.projection = true;
  return state_->record(std::move(spec));
}
Parameter Scope::sparse(std::string_view name, Shape shape, Init init, Here at) const {
  const std::string fqn = (*this / name).path();
  if (shape.size() != 2)
    throw UserError(str("state \"", fqn, "\" at ", line_of(at).text(), " is sparse and ",
                        shape_text(DType::f32, shape), "; a sparse table is [rows, width]"));
  Spec spec{fqn, DType::f32, std::move(shape), init, Role::parameter, true, "", line_of(at)};
  spec.sparse = true;
  return state_->record(std::move(spec));
}
Parameter Scope::buffer(std::string_view name, DType dtype, Shape shape, Init init, Here at) const {
  return state_->record(
      {(*this / name).path(), dtype, std::move(shape), init, Role::buffer, false, "", line_of(at)});
}
Parameter Scope::moment(const Parameter& of, std::string_view name, Here at) const {
  return state_->record({str(path_.empty() ? "" : path_ + ".", of.fqn(), ".", name), of.dtype(), of.shape(),
                         init::zeros(), Role::moment, false, of.fqn(), line_of(at)});
}

namespace {
DType computed_in(const Spec& spec, DType compute) {
  return spec.role == Role::parameter && spec.dtype == DType::f32 ? compute : spec.dtype;
}
}  // namespace

void State::compute_dtype(DType dtype, Here at) {
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    throw UserError(str("[state] ", line_of(at).text(), ": layers cannot compute in ", lockstep::name(dtype),
                        "; choose f32, bf16 or f16"));
  if (dtype == DType::f16 && !index_.count(kLossScale)) {
    const Scope scale = root() / "loss_scale";
    scale.buffer("scale", DType::f32, {1}, init::constant(loss_scale_.first), at);
    scale.buffer("good_steps", DType::f32, {1}, init::zeros(), at);
  }
  compute_ = dtype;
  for (Spec& spec : specs_) spec.compute = computed_in(spec, compute_);
}

void State::loss_scale(LossScale how, Here at) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[loss_scale] ", line_of(at).text(), ": ", what));
  };
  if (index_.count(kLossScale))
    fail(str("\"", kLossScale, "\" is recorded already; choose it before compute_dtype(DType::f16)"));
  for (auto [name, value, least, most] :
       {std::tuple("first", how.first, 0x1p-60, 0x1p60), std::tuple("growth", how.growth, 1.0, 0x1p16),
        std::tuple("backoff", how.backoff, 0x1p-16, 0.5)}) {
    int exponent = 0;
    if (!(value >= least && value <= most) || std::frexp(value, &exponent) != 0.5)
      fail(str(name, " is ", number_text(value), "; it must be a power of two, at least ", number_text(least),
               " and at most ", number_text(most)));
  }
  if (how.interval < 1 || how.interval > (1 << 24))
    fail(str("interval is ", how.interval, "; it must be between 1 and ", 1 << 24, " steps"));
  loss_scale_ = how;
}

void State::zero(int level, Here at) {
  if (level < 1 || level > 3)
    throw UserError(str("[state] ", line_of(at).text(), ": ZeRO level ", level,
                        "; choose 1 (moments are split over dp_shard), 2 (gradients "
                        "too) or 3 (parameters too)"));
  if (allocated_)
    throw UserError(str("[state] ", line_of(at).text(),
                        ": the state is already materialised; choose the ZeRO level before materialize() or "
                        "resume()"));
  zero_ = level;
}

Parameter State::record(Spec spec) {
  if (const std::string why = misnamed(spec.fqn); !why.empty())
    throw UserError(str("state \"", shortened(printable(spec.fqn), 100), "\" at ", spec.at.text(), " ", why));
  if (allocated_)
    throw UserError(str("state \"", spec.fqn, "\" at ", spec.at.text(),
                        ": the state is already materialised; construct models and optimizers before "
                        "materialize() or resume()"));
  for (int64_t size : spec.shape)
    if (size < 1)
      throw UserError(str("state \"", spec.fqn, "\" at ", spec.at.text(), ": ",
                          shape_text(spec.dtype, spec.shape), " has a size of ", size,
                          "; every size must be at least 1"));
  if (!is_countable(spec.dtype, spec.shape))
    throw UserError(str("state \"", spec.fqn, "\" at ", spec.at.text(), ": ",
                        shape_text(spec.dtype, spec.shape),
                        " has more bytes than 64 bits can count; make it smaller"));
  if (const std::string why = misfit(spec.init, spec.shape, spec.dtype); !why.empty())
    throw UserError(str("state \"", spec.fqn, "\" at ", spec.at.text(), " ", why));
  if (auto found = index_.find(spec.fqn); found != index_.end()) {
    const Spec& first = specs_[found->second];
    throw UserError(str("state \"", spec.fqn, "\" is recorded twice: ", shape_text(first.dtype, first.shape),
                        " at ", first.at.text(), " and ", shape_text(spec.dtype, spec.shape), " at ",
                        spec.at.text(), "; give one of the two another path"));
  }
  spec.compute = computed_in(spec, compute_);
  index_.emplace(spec.fqn, specs_.size());
  return Parameter(&specs_.emplace_back(std::move(spec)));
}

std::vector<Parameter> State::parameters() const {
  std::vector<Parameter> out;
  for (const Spec& spec : specs_)
    if (spec.trainable) out.emplace_back(&spec);
  return out;
}

Parameter State::find_spec(std::string_view fqn) const {
  auto found = index_.find(std::string(fqn));
  return found == index_.end() ? Parameter() : Parameter(&specs_[found->second]);
}

size_t State::index_of(std::string_view fqn) const {
  if (auto found = index_.find(std::string(fqn)); found != index_.end()) return found->second;
  std::vector<std::string> known;
  for (const Spec& spec : specs_) known.push_back(spec.fqn);
  std::string near = nearest(fqn, known);
  throw UserError(str("state has no tensor \"", fqn, "\" among its ", known.size(),
                      near.empty() ? "" : str("; did you mean \"", near, "\"?")));
}

void State::add_rules(std::vector<PlacementRule>& to, std::vector<PlacementRule> rules, Here at) {
  if (allocated_)
    throw UserError(str("[place] ", line_of(at).text(),
                        ": the state is already materialised; place it before materialize() or resume()"));
  std::vector<std::string> fqns;
  for (const Spec& spec : specs_) fqns.push_back(spec.fqn);
  // All errors; of tensors that fail for the same reason, only the first.
  std::vector<std::string> wrong;
  std::set<std::string> reasons;  // without the tensor's name
  auto fails = [&](const std::string& fqn, const auto& check) {
    try {
      check();
      return false;
    } catch (const UserError& error) {
      std::string reason = error.what();
      if (size_t at = fqn.empty() ? std::string::npos : reason.find("\"" + fqn + "\"");
          at != std::string::npos)
        reason.erase(at, fqn.size() + 2);
      if (reasons.insert(reason).second) wrong.push_back(error.what());
      return true;
    }
  };
  auto before = to;
  for (auto& rule : rules) {
    if (rule.at.file.empty()) rule.at = line_of(at);
    if (!fails("", [&] { check_rule(rule, fqns); })) to.push_back(rule);
  }
  for (const auto& rule : to)  // each rule separately: a layout stops at the first that does not fit
    for (const Spec& spec : specs_)
      if (!spec.shape.empty() && glob_match(rule.params, spec.fqn))
        fails(spec.fqn, [&] { check_fit(spec, rule); });
  for (const Spec& spec : specs_)
    fails(spec.fqn, [&] { layout_for(spec, rules_, defaults_, mesh_.words, placed_by()); });
  if (wrong.empty()) return;
  to = std::move(before);
  if (wrong.size() == 1) throw UserError(wrong[0]);
  throw UserError(str("[place] ", wrong.size(), " errors\n  ", join(wrong, "\n  ")));
}
void State::place(std::vector<PlacementRule> rules, Here at) { add_rules(rules_, std::move(rules), at); }
void State::place_by_default(std::vector<PlacementRule> rules, Here at) {
  add_rules(defaults_, std::move(rules), at);
}

Layout State::layout(std::string_view fqn) const {
  return layout_for(specs_[index_of(fqn)], rules_, defaults_, mesh_.words, placed_by());
}

std::string State::row_of(const std::string& fqn, const std::string& mesh_dim) const {
  for (const auto* list : {&rules_, &defaults_})
    for (const auto& rule : *list)
      if (rule.dim == mesh_dim && glob_match(rule.params, fqn)) return text(rule);
  return "";
}

std::vector<std::string> State::whole_on(const std::string& mesh_dim) const {
  std::vector<std::string> out;
  const int at = mesh_.words.find(mesh_dim);
  for (const Spec& spec : specs_)
    if (spec.role == Role::parameter &&
        (at < 0 || layout_for(spec, rules_, defaults_, mesh_.words, placed_by()).on(at) == Replicate()))
      out.push_back(spec.fqn);
  return out;
}

int64_t State::bytes_per_rank() const {
  int64_t bytes = 0;
  for (const Spec& spec : specs_)
    bytes += numel(padded_local_shape(layout_for(spec, rules_, defaults_, mesh_.words, placed_by()),
                                      mesh_.words, spec.shape)) *
             static_cast<int64_t>(size_of(spec.dtype));
  return bytes;
}

void State::allocate() {
  if (allocated_) return;
  std::deque<Array> made;
  for (const Spec& spec : specs_)
    made.push_back(make_array(spec.fqn, spec.dtype, spec.shape,
                              layout_for(spec, rules_, defaults_, mesh_.words, placed_by()), mesh_.words,
                              mesh_.rank));
  arrays_ = std::move(made);
  allocated_ = true;
}

namespace {
// Moves the values of an array to its device, if it lives on one.
void bring_home(Array& array) {
  if (Device* const device = array.device()) array.on(*device);
}
}  // namespace

void State::live_on(Device& device) {
  if (device.addressable()) return;
  for (Array* array : arrays())
    if (!array->lives_on_host()) array->on(device);
}

void State::start_with(std::function<void(State&)> weights, std::set<std::string> gives) {
  std::erase_if(weights_, [&](const Weights& one) {
    return !one.gives.empty() &&
           std::includes(gives.begin(), gives.end(), one.gives.begin(), one.gives.end());
  });
  weights_.push_back({std::move(weights), std::move(gives)});
}

void State::draw(bool again) {
  allocate();
  for (size_t i = 0; i < specs_.size(); ++i) {
    Array& array = arrays_[i];
    const bool fresh = array.version() == 0, zeros = specs_[i].init.kind == Init::Kind::zeros && fresh;
    if (!fresh && !again) continue;
    array.updates = 0;
    if (!zeros) fill(array, specs_[i].init, seed_);  // unwritten memory is zero
    bring_home(array);                               // one tensor at a time is in host memory
  }
  drawn_ = true;
  if (weights_.empty()) return;
  for (const Weights& weights : weights_) weights.give(*this);
  for (Array& array : arrays_) bring_home(array);
}
void State::materialize() { draw(true); }

bool State::has_values() const {
  if (drawn_) return true;
  bool any = false;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].version() > 0)
      any = true;
    else if (specs_[i].init.kind != Init::Kind::zeros || !weights_.empty())
      return false;  // zeros are its values if no function sets others
  }
  return any;
}
void State::start() {
  if (drawn_) return;
  if ((drawn_ = has_values())) return;
  const auto without =
      std::count_if(arrays_.begin(), arrays_.end(), [](const Array& one) { return one.version() == 0; });
  logs::info(without == static_cast<int64_t>(arrays_.size())
                 ? str("the state has no values yet: its initial values are drawn, of seed ", seed_)
                 : str(without, " of the ", arrays_.size(),
                       " tensors of the state have no values yet: their ",
                       "initial values are drawn, of seed ", seed_));
  draw(false);
}

std::vector<Array*> State::arrays() {
  LS_CHECK(allocated_, "the state is not materialised yet");
  std::vector<Array*> out;
  for (Array& array : arrays_) out.push_back(&array);
  return out;
}
std::vector<const Array*> State::arrays() const {
  LS_CHECK(allocated_, "the state is not materialised yet");
  std::vector<const Array*> out;
  for (const Array& array : arrays_) out.push_back(&array);
  return out;
}
Array& State::array(std::string_view fqn) {
  LS_CHECK(allocated_, "the state is not materialised yet");
  return arrays_[index_of(fqn)];
}
Array* State::find(std::string_view fqn) {
  LS_CHECK(allocated_, "the state is not materialised yet");
  auto found = index_.find(std::string(fqn));
  return found == index_.end() ? nullptr : &arrays_[found->second];
}

void State::add_optimizer(const std::string& path, const SourceLine& at,
                          std::function<Scalars(int64_t step)> scalars) {
  add_optimizer(path, at, [scalars = std::move(scalars)](int64_t step, int64_t) { return scalars(step); });
}
void State::add_optimizer(const std::string& path, const SourceLine& at,
                          std::function<Scalars(int64_t step, int64_t update)> scalars) {
  for (const auto& other : optimizers_)
    if (other.path == path)
      throw UserError(str("[optimizer] the path \"", path, "\" has two optimizers, at ", other.at.text(),
                          " and ", at.text(), "; give one of them another path"));
  optimizers_.push_back({path, at, std::move(scalars)});
}

double State::factor_of(const std::string& path) {
  const auto found = factors_.find(path);
  if (found == factors_.end()) return 1;
  Array& factor = array(found->second);
  if (factor.local_numel() == 0) return 1;
  factor.fetch();
  return *factor.data.as<float>();
}

int64_t State::updates_of(std::string_view fqn) const {
  const auto found = index_.find(std::string(fqn));
  return !allocated_ || found == index_.end() ? 0 : arrays_[found->second].updates;
}

State::Scalars State::scalars(int64_t step, int64_t update) const {
  Scalars out;
  std::map<std::string, const OfStep*> owners;
  for (const auto& optimizer : optimizers_)
    for (const auto& [name, value] : optimizer.scalars(step, update)) {
      const auto [owner, added] = owners.emplace(name, &optimizer);
      if (!added)
        throw UserError(str("[optimizer] the scalar \"", name, "\" is set twice: by \"", owner->second->path,
                            "\" at ", owner->second->at.text(), " and by \"", optimizer.path, "\" at ",
                            optimizer.at.text(), "; give one of the two another name"));
      out.emplace(name, value);
    }
  return out;
}

}  // namespace lockstep
