// Keys and checks that the families for images share.
#pragma once

#include "core/models/family.h"

namespace lockstep::models {

// Keys for square images [channels,size,size], f32. A family adds its own keys after these.
struct ImageOptions {
  int64_t channels = key(&channels, "channels", 3, "channels of an image", between(1, 4096));
  int64_t size = key(&size, "size", 32, "pixels of an image's side", between(1, 0x1p16));
};
std::vector<Field> image_inputs(const ImageOptions& o);  // {"images" f32 [channels,size,size]}
// Throws UserError, naming `who`, for images of another shape.
void check_images(std::string_view who, const Tensor& images, const ImageOptions& o, Here at);

}  // namespace lockstep::models
