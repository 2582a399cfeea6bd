// Image samples: lists pictures, chooses crops, and decodes on threads.
#include "launcher/data/images/image_samples.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/philox.h"
#include "core/reading/one_line.h"
#include "launcher/data/files.h"
#include "launcher/data/images/picture.h"
#include "launcher/data/order.h"

namespace fs = std::filesystem;

namespace lockstep::launcher::data {

namespace {
// Limit of the bytes of samples decoded before their step.
constexpr int64_t kAhead = int64_t{512} << 20;

// One thread for each core of the rank.
int64_t loader_threads() {
  if (const char* given = std::getenv("OMP_NUM_THREADS"))
    if (const int64_t n = std::atoll(given); n > 0) return n;
  return std::max(1u, std::thread::hardware_concurrency());
}

struct Entry {
  std::string path;
  int32_t label;
};

class ImageSamples : public Samples {
 public:
  ImageSamples(const DataOptions& options, const std::vector<SampleField>& fields)
      : options_(options), labels_(fields.size() > 1), shape_(fields[0].shape), threads_(loader_threads()) {
    find_pictures(labels_ ? fields[1].below : 0);
    train_size_ = static_cast<int64_t>(train_.size());
    if (train_.empty())
      throw UserError(str("data.paths: ", validation_.size(),
                          " pictures, of which all are kept for validation: "
                          "none is left to train on"));
    // Reads the first picture now, so that a bad data set is reported before compilation.
    std::vector<float> one(numel(shape_));
    decode(train_[0], {}, one.data());
    logs::info(str("data: ", train_.size(), " training pictures, ", validation_.size(),
                   " validation pictures, ", classes_.size(), " classes, crop ", options_.image.crop,
                   options_.image.flip ? ", flipped at random" : "", ", order ", options_.order,
                   ", fingerprint ", fingerprint_));
  }
  ~ImageSamples() override {
    for (auto& [key, batch] : ahead_) batch.wait();
  }

  int64_t validation() const override { return static_cast<int64_t>(validation_.size()); }
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
            const std::vector<void*>& fields) const override {
    const Key key{step, global_batch, first, count};
    std::future<Batch> coming;
    {
      std::lock_guard lock(mutex_);
      if (auto found = ahead_.find(key); found != ahead_.end()) {
        coming = std::move(found->second);
        ahead_.erase(found);
      }
      std::erase_if(ahead_, [&](auto& row) { return row.first.step < step && (row.second.wait(), true); });
    }
    const Batch batch = coming.valid() ? coming.get() : load(key);
    std::copy(batch.images.begin(), batch.images.end(), static_cast<float*>(fields[0]));
    if (labels_) std::copy(batch.labels.begin(), batch.labels.end(), static_cast<int32_t*>(fields[1]));
    begin_next(key);
  }
  void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const override {
    const int64_t n = numel(shape_);
    each(count, [&](int64_t i) {
      const Entry& entry = validation_[first + i];
      decode(entry, {}, static_cast<float*>(fields[0]) + i * n);
      if (labels_) static_cast<int32_t*>(fields[1])[i] = entry.label;
    });
  }
  std::vector<std::string> class_names() const override {
    return labels_ ? classes_ : std::vector<std::string>();
  }
  const std::vector<DataFile>& contents() const override { return contents_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::string& read_as() const override { return read_as_; }
  std::vector<std::string> changed() const override { return {}; }
  std::pair<std::string, std::string> counts() const override {
    return {"samples", str(train_.size(), " for training, ", validation_.size(), " for validation")};
  }

 private:
  struct Key {
    int64_t step, global_batch, first, count;
    auto operator<=>(const Key&) const = default;
  };
  struct Batch {
    std::vector<float> images;
    std::vector<int32_t> labels;
  };
  // The random choices for a training sample; unset: the center, not mirrored.
  struct Draw {
    bool drawn = false;
    int64_t picture = 0, epoch = 0;
  };

  void find_pictures(int64_t below) {
    std::map<std::string, std::vector<std::string>> found;  // by class name
    std::string all;
    for (const auto& path : options_.paths) {
      for (const auto& file : find_files({path}, "", /*every_name=*/true).files) {
        if (!is_picture_name(file)) continue;
        const std::string relative = fs::path(file).lexically_relative(path).string();
        const size_t slash = relative.find('/');
        if (slash == std::string::npos || relative.starts_with(".."))
          throw UserError(str("data.paths: ", one_line(file),
                              " is not in a class folder; name the folder above the class folders, as "
                              "pictures of pictures/cat/1.png"));
        found[relative.substr(0, slash)].push_back(file);
        all += str(relative, " ", fs::file_size(file), "\n");
      }
    }
    if (found.empty())
      throw UserError(
          str("data.paths: no picture (.png, .jpg, .jpeg) in the folders of ", join(options_.paths, ", ")));
    if (below && static_cast<int64_t>(found.size()) > below)
      throw UserError(str("data.paths: ", found.size(), " folders, a class each (",
                          one_line(found.begin()->first), ", ", one_line(std::next(found.begin())->first),
                          ", ...), and the model has ", below, " classes; set model.classes to ",
                          found.size()));
    for (const auto& [name, files] : found) {
      const auto kept =
          static_cast<size_t>(std::llround(static_cast<double>(files.size()) * options_.validation));
      for (size_t i = 0; i < files.size(); ++i)
        (i < files.size() - kept ? train_ : validation_)
            .push_back({files[i], static_cast<int32_t>(classes_.size())});
      if (!is_utf8(name))
        throw UserError(
            str("data.paths: the folder of a class is named ", one_line(name),
                ", which is not UTF-8, and names of classes are kept with the weights; rename it"));
      classes_.push_back(name);
      char hex[20];
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash64(join(files, "\n"))));
      contents_.push_back({name, static_cast<int64_t>(files.size()), hex});
    }
    fingerprint_ = hash_hex(all);
  }

  double uniform(const Draw& draw, uint64_t which) const {
    static const uint64_t stream = hash64("data.image");
    return philox::uniform(philox::bits(options_.seed, stream, static_cast<uint64_t>(draw.epoch),
                                        static_cast<uint64_t>(draw.picture) << 8 | which));
  }

  // The crop. `resized`: 0.08 to 1 of the area, with a ratio of 3:4 to 4:3 (Szegedy et al., arXiv 1409.4842);
  // else as large as the field's shape allows, at the center or at a random place.
  Cut cut_of(const Picture& picture, const Draw& draw) const {
    const auto w = static_cast<double>(picture.width), h = static_cast<double>(picture.height);
    const double ratio = static_cast<double>(shape_[2]) / static_cast<double>(shape_[1]);
    double width = std::min(w, h * ratio), height = width / ratio, x = 0.5, y = 0.5;
    const std::string& crop = options_.image.crop;
    if (draw.drawn && crop == "resized") {
      const double area = w * h * (0.08 + 0.92 * uniform(draw, 0)),
                   turned = std::exp(std::log(0.75) + uniform(draw, 1) * std::log(16.0 / 9)) * ratio;
      width = std::min(w, std::sqrt(area * turned)), height = std::min(h, std::sqrt(area / turned));
    } else if (draw.drawn && crop == "random") {
      width *= options_.image.crop_share, height *= options_.image.crop_share;
    }
    if (draw.drawn && crop != "center") x = uniform(draw, 2), y = uniform(draw, 3);
    return {(w - width) * x, (h - height) * y, width, height};
  }

  void decode(const Entry& entry, const Draw& draw, float* out) const {
    const Picture picture = read_picture(entry.path, shape_[0], std::max(shape_[1], shape_[2]));
    const bool mirrored = draw.drawn && options_.image.flip && uniform(draw, 4) < 0.5;
    resample(picture, cut_of(picture, draw), shape_[2], shape_[1], mirrored, out);
    const int64_t plane = shape_[1] * shape_[2];
    for (int64_t c = 0; c < shape_[0]; ++c) {
      auto of = [&](const std::vector<double>& list) {
        return static_cast<float>(list[list.size() == 1 ? 0 : c]);
      };
      const float mean = of(options_.image.mean), deviation = of(options_.image.deviation);
      for (int64_t i = 0; i < plane; ++i) {
        float& value = out[c * plane + i];
        value = (value / 255.0f - mean) / deviation;
      }
    }
  }

  // Calls `one` with 0 ... count - 1, on the loader's threads. Rethrows the first exception.
  template <class One>
  void each(int64_t count, const One& one) const {
    const int64_t workers = std::min(count, threads_);
    std::vector<std::future<void>> parts;
    for (int64_t w = 0; w < workers; ++w)
      parts.push_back(std::async(w ? std::launch::async : std::launch::deferred, [&, w] {
        for (int64_t i = count * w / workers; i < count * (w + 1) / workers; ++i) one(i);
      }));
    for (auto& part : parts) part.wait();
    for (auto& part : parts) part.get();
  }

  Batch load(const Key& key) const {
    const int64_t n = numel(shape_), size = train_size_;
    Batch out{std::vector<float>(key.count * n), std::vector<int32_t>(key.count)};
    each(key.count, [&](int64_t i) {
      const int64_t g = key.step * key.global_batch + key.first + i,
                    picture = sequence_of(g, size, options_.order == "shuffle", options_.seed);
      const Entry& entry = train_[picture];
      decode(entry, {true, picture, g / size}, out.images.data() + i * n);
      out.labels[i] = entry.label;
    });
    return out;
  }

  // Starts decoding the same samples of the next step, if they fit in memory.
  void begin_next(Key key) const {
    ++key.step;
    const int64_t bytes = key.count * numel(shape_) * 4;
    std::lock_guard lock(mutex_);
    if (ahead_.contains(key) || (static_cast<int64_t>(ahead_.size()) + 1) * bytes > kAhead) return;
    ahead_.emplace(key, std::async(std::launch::async, [this, key] { return load(key); }));
  }

  DataOptions options_;
  bool labels_;
  Shape shape_;
  int64_t threads_, train_size_ = 0;
  std::vector<Entry> train_, validation_;
  std::vector<std::string> classes_;
  std::vector<DataFile> contents_;
  std::string fingerprint_, read_as_ = "by names and sizes";
  mutable std::mutex mutex_;
  mutable std::map<Key, std::future<Batch>> ahead_;
};
}  // namespace

std::unique_ptr<Samples> image_samples(const DataOptions& options, const std::vector<SampleField>& fields) {
  const bool image = !fields.empty() && fields[0].dtype == DType::f32 && fields[0].shape.size() == 3 &&
                     (fields[0].shape[0] == 1 || fields[0].shape[0] == 3);
  const bool rest = fields.size() == 1 || (fields.size() == 2 && fields[1].name == "labels" &&
                                           fields[1].dtype == DType::i32 && fields[1].shape.empty());
  if (!image || !rest) {
    std::vector<std::string> all;
    for (const auto& field : fields) all.push_back(text(field));
    throw UserError(
        str("data.kind is images, pictures of 1 or 3 channels and their labels, and a sample of this "
            "model and task has ",
            join(all, ", "), "; choose data.kind arrays, or a model of images (vit, resnet, ...)"));
  }
  for (auto [key, list] : {std::pair{"data.image.mean", &options.image.mean},
                           std::pair{"data.image.std", &options.image.deviation}})
    if (list->size() != 1 && static_cast<int64_t>(list->size()) != fields[0].shape[0])
      throw UserError(str(key, " has ", list->size(), " values, and a picture of this model ",
                          fields[0].shape[0], " channels; give one for each, or one for all"));
  return std::make_unique<ImageSamples>(options, fields);
}

}  // namespace lockstep::launcher::data
