// Convolution and its gradients by cuDNN's graphs: one node, tensors as they are stored, and only engines
// that repeat their bits.
#include <algorithm>
#include <map>
#include <mutex>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/library/cudnn_graph.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
namespace fe = cudnn_frontend;
using Which = ConvolutionShape::Which;
using List = std::vector<int64_t>;
enum Uid : int64_t { kX = 1, kW, kY, kBias };

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::bf16  ? fe::DataType_t::BFLOAT16
         : dtype == DType::f16 ? fe::DataType_t::HALF
                               : fe::DataType_t::FLOAT;
}

using Notes = std::vector<fe::NumericalNote_t>;
constexpr std::pair<fe::NumericalNote_t, const char*> kNotes[] = {
    {fe::NumericalNote_t::NONDETERMINISTIC, "not deterministic"},
    {fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION, "sums of less precision"},
    {fe::NumericalNote_t::FFT, "FFT"},
    {fe::NumericalNote_t::WINOGRAD, "Winograd"},
    {fe::NumericalNote_t::WINOGRAD_TILE_4x4, "Winograd 4 x 4"},
    {fe::NumericalNote_t::WINOGRAD_TILE_6x6, "Winograd 6 x 6"},
    {fe::NumericalNote_t::WINOGRAD_TILE_13x13, "Winograd 13 x 13"},
    {fe::NumericalNote_t::TENSOR_CORE, "tensor cores"},
    {fe::NumericalNote_t::DOWN_CONVERT_INPUTS, "rounds its operands"}};
// Whether an engine with this note is barred, for example because its tensor cores round f32 operands.
bool barred(fe::NumericalNote_t note, const ConvolutionShape& shape, bool tf32) {
  const bool cores =
      note == fe::NumericalNote_t::TENSOR_CORE || note == fe::NumericalNote_t::DOWN_CONVERT_INPUTS;
  return cores ? shape.dtype == DType::f32 && !tf32 : note != fe::NumericalNote_t::NOT_SET;
}

class PlanGraph : public fe::graph::Graph {
 public:
  const Notes& notes(int64_t plan) const { return plans.numeric_notes[plan]; }
};

class Plan : public ConvolutionPlan {
 public:
  // `index`: among all plans that heuristics list; -1: the first that is not barred.
  Plan(CudaDevice& device, const ConvolutionShape& shape, bool tf32, int64_t index = -1)
      : handle_(cudnn_handle(device)), shape_(shape), tf32_(tf32), index_(index) {
    std::lock_guard lock(handle_.mutex);
    device.enter();
    const fe::DataType_t io = type_of(shape.dtype);
    graph_.set_io_data_type(io)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    graph_.set_sm_version(device.properties().major * 10 + device.properties().minor);
    refused_ = build();
  }
  const std::string& refused() const { return refused_; }
  int64_t workspace() const override { return (workspace_ + 255) / 256 * 256; }
  const std::string& name() const override { return name_; }
  int64_t plans() const { return graph_.get_execution_plan_count(); }
  // Whether the plan at `index` rounds its operands.
  bool rounds_operands() const {
    return std::any_of(
        graph_.notes(index_).begin(), graph_.notes(index_).end(),
        [&](fe::NumericalNote_t note) { return barred(note, shape_, tf32_) && !barred(note, shape_, true); });
  }
  // The note that bars it.
  std::string barred_by() const {
    std::string text;
    for (const auto& [note, word] : kNotes)
      for (fe::NumericalNote_t has : graph_.notes(index_))
        if (has == note && barred(note, shape_, tf32_))
          text += (text.empty() ? "" : ", ") + std::string(word);
    return text;
  }

  void enqueue(const ConvolutionPointers& p, void* workspace, Stream& stream) const override {
    std::unordered_map<int64_t, void*> pack{{kX, p.x}, {kW, p.weight}, {kY, p.y}};
    if (shape_.bias) pack.insert({kBias, p.bias});
    std::lock_guard lock(handle_.mutex);
    set_cudnn_stream(handle_, stream);
    fe::error_t status = graph_.execute(handle_.native, pack, workspace);
    if (status.is_bad())
      throw InternalError(str("cuDNN ", convolution_text(shape_), ": ", status.get_message()));
  }

 private:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
  // cuDNN's kernels have two or three spatial dims: one dim becomes two, the first of size 1.
  List spatial(List list, int64_t otherwise) const {
    if (list.size() == 1) list.insert(list.begin(), otherwise);
    return list;
  }
  List dims(int64_t a, int64_t b, const List& list) const {
    List out = spatial(list, 1);
    out.insert(out.begin(), {a, b});
    return out;
  }
  List strides(const List& dims) const {
    return shape_.channels_last ? channels_last_strides(dims) : row_major_strides(dims);
  }
  Tensor input(const char* name, Uid uid, const List& dims) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim(dims)
                             .set_stride(strides(dims))
                             .set_data_type(type_of(shape_.dtype)));
  }
  void output(const Tensor& tensor, Uid uid, const List& dims) const {
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim(dims)
        .set_stride(strides(dims))
        .set_data_type(type_of(shape_.dtype));
  }
  template <class Options>
  Options options(const char* name) const {
    Options made;
    made.set_name(name)
        .set_pre_padding(spatial(shape_.lo, 0))
        .set_post_padding(spatial(shape_.hi, 0))
        .set_stride(spatial(shape_.stride, 1))
        .set_dilation(spatial(shape_.dilation, 1));
    return made;
  }
  void add_node() {
    const List x = dims(shape_.n, shape_.channels, shape_.spatial),
               y = dims(shape_.n, shape_.outputs, shape_.counts),
               w = dims(shape_.outputs, shape_.channels / shape_.groups, shape_.sizes);
    switch (shape_.which) {
      case Which::forward: {
        Tensor made = graph_.conv_fprop(input("x", kX, x), input("w", kW, w),
                                        options<fe::graph::Conv_fprop_attributes>("convolution"));
        if (shape_.bias) {
          const List one = dims(1, shape_.outputs, List(shape_.dims(), 1));
          made->set_dim(y).set_stride(strides(y)).set_data_type(fe::DataType_t::FLOAT);
          made = graph_.pointwise(
              made, input("bias", kBias, one),
              fe::graph::Pointwise_attributes().set_name("bias").set_mode(fe::PointwiseMode_t::ADD));
        }
        return output(made, kY, y);
      }
      case Which::input:
        return output(graph_.conv_dgrad(input("dy", kY, y), input("w", kW, w),
                                        options<fe::graph::Conv_dgrad_attributes>("convolution_grad_input")),
                      kX, x);
      case Which::weight:
        return output(graph_.conv_wgrad(input("dy", kY, y), input("x", kX, x),
                                        options<fe::graph::Conv_wgrad_attributes>("convolution_grad_weight")),
                      kW, w);
    }
  }
  // Empty, or the reason why cuDNN refuses the graph.
  std::string build() try {
    add_node();
    fe::error_t status = graph_.validate();
    if (status.is_good()) status = graph_.build_operation_graph(handle_.native);
    if (index_ < 0) {
      if (status.is_good())
        status = graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
      if (status.is_good()) {
        Notes out;
        for (const auto& [note, word] : kNotes)
          if (barred(note, shape_, tf32_)) out.push_back(note);
        graph_.deselect_numeric_notes(out);
        status = graph_.check_support();
      }
      if (status.is_good()) status = graph_.build_plans();
    } else {
      if (status.is_good())
        status =
            graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK});
      if (status.is_good()) status = graph_.get_plan_name_at_index(index_, name_);
      if (status.is_good() && rounds_operands()) return "it rounds its operands";
      if (status.is_good()) status = graph_.build_plan_at_index(index_);
    }
    if (status.is_good()) status = graph_.get_workspace_size(workspace_);
    if (status.is_good() && index_ < 0) status = graph_.get_plan_name(name_);
    if (status.is_bad()) return status.get_message().empty() ? "no reason given" : status.get_message();
    if (index_ < 0) load_kernels_of(graph_, handle_);
    return "";
  } catch (const std::exception& error) { return error.what(); }

  CudnnHandle& handle_;
  ConvolutionShape shape_;
  bool tf32_;
  int64_t index_;
  PlanGraph graph_;
  int64_t workspace_ = 0;
  std::string name_, refused_;
};
}  // namespace

std::shared_ptr<const ConvolutionPlan> plan_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                        bool tf32, std::string& refused) {
  open_cudnn_for("convolution");
  struct Known {
    std::shared_ptr<const ConvolutionPlan> plan;
    std::string refused;
  };
  static std::mutex mutex;
  static auto& plans = *new std::map<std::string, Known>;
  std::lock_guard lock(mutex);
  Known& known = plans[str(device.properties().ordinal, " ", convolution_text(shape), " ", tf32)];
  if (!known.plan && known.refused.empty()) {
    auto made = std::make_shared<Plan>(device, shape, tf32);
    known.refused = made->refused();
    if (known.refused.empty()) known.plan = made;
  }
  refused = known.refused;
  return known.plan;
}

std::vector<ConvolutionChoice> convolution_choices(CudaDevice& device, const ConvolutionShape& shape,
                                                   bool tf32) {
  open_cudnn_for("convolution");
  std::vector<ConvolutionChoice> out;
  for (int64_t index = 0, count = 1; index < count; ++index) {
    auto plan = std::make_shared<Plan>(device, shape, tf32, index);
    count = plan->plans();
    const bool known = std::any_of(out.begin(), out.end(), [&](const ConvolutionChoice& choice) {
      return choice.plan->name() == plan->name();
    });
    if (plan->refused().empty() && !known) out.push_back({plan, plan->barred_by()});
  }
  return out;
}

}  // namespace lockstep::compiler::cuda
