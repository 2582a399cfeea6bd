// Scaled dot-product attention by cuDNN's graphs.
#include <map>
#include <mutex>

#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/library/cudnn_graph.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
namespace fe = cudnn_frontend;
enum Uid : int64_t { kQ = 1, kK, kV, kO, kLse, kGrad, kDq, kDk, kDv };

constexpr std::string_view kNeeds = "attention in bf16 and f16";

class Plan : public SdpaPlan {
 public:
  Plan(CudaDevice& device, const AttentionShape& shape, bool deterministic)
      : handle_(cudnn_handle(device)), shape_(shape) {
    std::lock_guard lock(handle_.mutex);
    device.enter();
    fe::DataType_t io = shape.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
    graph_.set_io_data_type(io)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    graph_.set_sm_version(device.properties().major * 10 + device.properties().minor);
    shape.backward ? add_backward(io, deterministic) : add_forward(io);
    refused_ = build();
  }
  const std::string& refused() const { return refused_; }
  int64_t workspace() const override { return (workspace_ + 255) / 256 * 256; }
  const std::string& name() const override { return name_; }

  void enqueue(const AttentionPointers& p, void* workspace, Stream& stream) const override {
    std::unordered_map<int64_t, void*> pack{{kQ, p.q}, {kK, p.k}, {kV, p.v}, {kO, p.o}, {kLse, p.lse}};
    if (shape_.backward) pack.insert({{kGrad, p.grad}, {kDq, p.dq}, {kDk, p.dk}, {kDv, p.dv}});
    std::lock_guard lock(handle_.mutex);
    set_cudnn_stream(handle_, stream);
    fe::error_t status = graph_.execute(handle_.native, pack, workspace);
    if (status.is_bad())
      throw InternalError(str("cuDNN ", attention_text(shape_), ": ", status.get_message()));
  }

 private:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
  // cuDNN's order of dims is [batch, heads, tokens, size].
  static std::vector<int64_t> strides(const HeadView& view) { return {view.batch, view.head, view.token, 1}; }
  std::vector<int64_t> query_dims() const {
    return {shape_.batch, shape_.heads, shape_.queries, shape_.size};
  }
  std::vector<int64_t> key_dims() const { return {shape_.batch, shape_.kv_heads, shape_.keys, shape_.size}; }
  std::vector<int64_t> lse_dims() const { return {shape_.batch, shape_.heads, shape_.queries, 1}; }
  std::vector<int64_t> lse_strides() const { return {shape_.heads * shape_.queries, shape_.queries, 1, 1}; }
  Tensor input(const char* name, Uid uid, const std::vector<int64_t>& dims,
               const std::vector<int64_t>& strides, fe::DataType_t type) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim(dims)
                             .set_stride(strides)
                             .set_data_type(type));
  }
  static void output(const Tensor& tensor, Uid uid, const std::vector<int64_t>& dims,
                     const std::vector<int64_t>& strides, fe::DataType_t type) {
    tensor->set_output(true).set_uid(uid).set_dim(dims).set_stride(strides).set_data_type(type);
  }

  void add_forward(fe::DataType_t io) {
    fe::graph::SDPA_attributes options;
    options.set_name("sdpa").set_generate_stats(true).set_attn_scale(static_cast<float>(shape_.scale));
    if (shape_.reads.causal)
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (shape_.reads.window) options.set_diagonal_band_left_bound(shape_.reads.window);
    Tensor q = input("q", kQ, query_dims(), strides(shape_.q), io),
           k = input("k", kK, key_dims(), strides(shape_.k), io),
           v = input("v", kV, key_dims(), strides(shape_.v), io);
    auto [o, lse] = graph_.sdpa(q, k, v, options);
    output(o, kO, query_dims(), strides(shape_.o), io);
    output(lse, kLse, lse_dims(), lse_strides(),
           fe::DataType_t::FLOAT);  // the natural logarithm of the sum of exponentials
  }
  void add_backward(fe::DataType_t io, bool deterministic) {
    fe::graph::SDPA_backward_attributes options;
    options.set_name("sdpa_grad")
        .set_attn_scale(static_cast<float>(shape_.scale))
        .set_deterministic_algorithm(deterministic);
    if (shape_.reads.causal)
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (shape_.reads.window) options.set_diagonal_band_left_bound(shape_.reads.window);
    Tensor q = input("q", kQ, query_dims(), strides(shape_.q), io),
           k = input("k", kK, key_dims(), strides(shape_.k), io),
           v = input("v", kV, key_dims(), strides(shape_.v), io),
           o = input("o", kO, query_dims(), strides(shape_.o), io),
           grad = input("do", kGrad, query_dims(), strides(shape_.grad), io),
           lse = input("lse", kLse, lse_dims(), lse_strides(), fe::DataType_t::FLOAT);
    auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, o, grad, lse, options);
    output(dq, kDq, query_dims(), strides(shape_.dq), io);
    output(dk, kDk, key_dims(), strides(shape_.dk), io);
    output(dv, kDv, key_dims(), strides(shape_.dv), io);
  }
  // Empty, or why cuDNN refuses the graph.
  std::string build() try {
    fe::error_t status = graph_.build(handle_.native, {fe::HeurMode_t::A});
    if (status.is_good()) status = graph_.get_workspace_size(workspace_);
    if (status.is_good()) status = graph_.get_plan_name(name_);
    if (status.is_bad()) return status.get_message().empty() ? "no reason given" : status.get_message();
    load_kernels_of(graph_, handle_);
    return "";
  } catch (const std::exception& error) { return error.what(); }

  CudnnHandle& handle_;
  AttentionShape shape_;
  fe::graph::Graph graph_;
  int64_t workspace_ = 0;
  std::string name_, refused_;
};

std::string key_of(const CudaDevice& device, const AttentionShape& s, bool deterministic) {
  std::string key =
      str(device.properties().ordinal, " ", attention_text(s), " ", deterministic, " ", number_text(s.scale));
  for (const HeadView& view : {s.q, s.k, s.v, s.o, s.grad, s.dq, s.dk, s.dv})
    key += str(" ", view.batch, ",", view.token, ",", view.head);
  return key;
}
}  // namespace

std::shared_ptr<const SdpaPlan> plan_sdpa(CudaDevice& device, const AttentionShape& shape, bool deterministic,
                                          std::string& refused) {
  open_cudnn_for(kNeeds);
  struct Known {
    std::shared_ptr<const SdpaPlan> plan;
    std::string refused;
  };
  static std::mutex mutex;
  static auto& plans = *new std::map<std::string, Known>;
  std::lock_guard lock(mutex);
  Known& known = plans[key_of(device, shape, deterministic)];
  if (!known.plan && known.refused.empty()) {
    auto made = std::make_shared<Plan>(device, shape, deterministic);
    known.refused = made->refused();
    if (known.refused.empty()) known.plan = made;
  }
  refused = known.refused;
  return known.plan;
}

}  // namespace lockstep::compiler::cuda
