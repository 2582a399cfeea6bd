// Svg: a drawing as text. Rectangles, lines and words on an opaque ground, which light and dark pages show
// alike; no script, no font of its own.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::launcher {

class Svg {
 public:
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
  };
  enum class Anchor { start, middle, end };
  struct Style {
    double size = 12;  // of letters
    Anchor anchor = Anchor::start;
    std::string_view fill = "#24292f";
    bool bold = false;
  };

  // `title`: what a viewer shows of the box below the pointer; "" for none.
  void box(const Box& at, std::string_view fill, const std::string& title = "");
  void line(double x1, double y1, double x2, double y2, std::string_view stroke);
  // On the base line `y`.
  void words(double x, double y, const std::string& text, const Style& style);
  // About what words take, for letters of a usual font without serifs.
  static double width_of(std::string_view text, double size);

  // The document of `width` x `height` pixels, which scales to any size.
  std::string document(double width, double height, const std::string& title) const;

 private:
  std::string body_;
};

}  // namespace lockstep::launcher
