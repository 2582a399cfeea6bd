// Svg: a drawing as text. Rectangles, lines and text on an opaque background, which looks the same on light
// and dark pages; no script, no embedded font.
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
    double size = 12;  // font size
    Anchor anchor = Anchor::start;
    std::string_view fill = "#24292f";
    bool bold = false;
  };

  // `title`: the tooltip of the box; "" for none.
  void box(const Box& at, std::string_view fill, const std::string& title = "");
  void line(double x1, double y1, double x2, double y2, std::string_view stroke);
  // On the base line `y`.
  void words(double x, double y, const std::string& text, const Style& style);
  // Approximate width of text in a common sans-serif font.
  static double width_of(std::string_view text, double size);

  // The document of `width` x `height` pixels, which scales to any size.
  std::string document(double width, double height, const std::string& title) const;

 private:
  std::string body_;
};

}  // namespace lockstep::launcher
