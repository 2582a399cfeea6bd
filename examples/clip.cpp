// Two encoders whose vectors meet where their inputs belong together (Radford et al., arXiv 2103.00020):
//   trainrun --nproc 2 ./example-clip runs/clip 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kFeatures = 32, kVocab = 64, kWords = 4, kWidth = 32;

struct Clip {
  Linear image1, image2, text;  Embedding word;  Parameter scale;
  explicit Clip(Scope at)
      : image1(at / "image" / "first", kFeatures, 64, true, init::kaiming_normal()),
        image2(at / "image" / "second", 64, kWidth, true, init::xavier_normal()),
        text(at / "text" / "out", kWidth, kWidth, true, init::xavier_normal()),
        word(at / "text" / "word", kVocab, kWidth, init::normal(1)), scale(at.parameter("logit_scale", {1}, init::constant(2.0))) {}
  Tensor operator()(Tensor image, Tensor words) const {          // [n, n]: how well each image fits each text
    Tensor a = normalize(image2(relu(image1(image)))), b = normalize(text(mean(word(words), {1})));
    return matmul(a, transpose(b, 0, 1)) * exp(scale(a));
  }
};

// Sample i: of one thing, 16 bits, an image (the bits twice, with noise) and a text (a word for each four bits).
void sample(int64_t i, const std::vector<void*>& fields) {
  const uint32_t thing = philox::bits(1, 0, i, 0) & 0xffff;
  for (int k = 0; k < kFeatures; ++k)
    static_cast<float*>(fields[0])[k] = ((thing >> k % 16) & 1 ? 1.0f : -1.0f) + 0.3f * philox::normal(2, 0, i, k);
  for (int k = 0; k < kWords; ++k) static_cast<int32_t*>(fields[1])[k] = 16 * k + ((thing >> 4 * k) & 15);
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Clip clip(state.root());
  AdamW adamw(state / "optim", {.lr = 1e-2, .weight_decay = 0});
  SampleData data{{{"image", DType::f32, {kFeatures}}, {"words", DType::i32, {kWords}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor logits = clip(batch[0], batch[1]);                    // the pairs of one micro-batch are told apart
    Tensor own = iota(logits, {logits.size(0)}, 0, DType::i32);
    Loss texts = cross_entropy(logits, own), images = cross_entropy(transpose(logits, 0, 1), own);
    Loss loss{texts.sum + images.sum, texts.count + images.count};
    adamw.update(grad(loss, state.parameters()));
    metric("accuracy", mean_loss(convert(argmax(logits, 1) == own, DType::f32)));
    return loss;
  }, {.run = session.argument(0, "runs/clip"), .steps = session.number(1, 100), .global_batch = 64, .micro_batch = 16});
}
