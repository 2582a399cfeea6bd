// Svg: prints elements as text with two decimals.
#include "launcher/plan/svg.h"

#include <cstdio>

#include "core/base/markup.h"
#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}
}  // namespace

void Svg::box(const Box& at, std::string_view fill, const std::string& title) {
  body_ += str("<rect x=\"", number(at.x), "\" y=\"", number(at.y), "\" width=\"", number(at.width),
               "\" height=\"", number(at.height), "\" fill=\"", fill, "\"");
  body_ += title.empty() ? "/>\n" : str("><title>", escaped_markup(title), "</title></rect>\n");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke) {
  body_ += str("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"",
               number(y2), "\" stroke=\"", stroke, "\"/>\n");
}

void Svg::words(double x, double y, const std::string& text, const Style& style) {
  static constexpr std::string_view anchors[] = {"start", "middle", "end"};
  body_ += str("<text x=\"", number(x), "\" y=\"", number(y), "\" font-size=\"", number(style.size),
               "\" text-anchor=\"", anchors[static_cast<size_t>(style.anchor)], "\" fill=\"", style.fill,
               "\"", style.bold ? " font-weight=\"bold\"" : "", ">", escaped_markup(text), "</text>\n");
}

double Svg::width_of(std::string_view text, double size) {
  return 0.6 * size * static_cast<double>(text.size());
}

std::string Svg::document(double width, double height, const std::string& title) const {
  const std::string size = str(number(width), " ", number(height));
  return str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", size, "\" width=\"", number(width),
             "\" height=\"", number(height), "\" font-family=\"Helvetica, Arial, sans-serif\">\n<title>",
             escaped_markup(title), "</title>\n<rect width=\"", number(width), "\" height=\"", number(height),
             "\" rx=\"8\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>\n", body_, "</svg>\n");
}

}  // namespace lockstep::launcher
