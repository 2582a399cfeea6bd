// Images that models read.
#include "core/models/image_options.h"

#include "core/base/error.h"

namespace lockstep::models {

std::vector<Field> image_inputs(const ImageOptions& o) {
  return {{"images", DType::f32, {o.channels, o.size, o.size}}};
}

void check_images(std::string_view who, const Tensor& images, const ImageOptions& o, Here at) {
  const Shape found = images.defined() ? images.shape() : Shape{};
  if (found.size() != 4 || !is_float(images.dtype()) ||
      Shape(found.begin() + 1, found.end()) != Shape{o.channels, o.size, o.size})
    throw UserError(str("[", who, "] ", line_of(at).text(), ": the images are ",
                        images.defined() ? images.text() : "an empty Tensor",
                        "; they must be floats [images, ", o.channels, ", ", o.size, ", ", o.size, "]"));
}

}  // namespace lockstep::models
