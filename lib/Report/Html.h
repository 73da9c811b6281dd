// Writes HTML (and the SVG inside it) such that no text can become markup.
//
//   html.open("p", {{"class", "note"}}).text("a < b").close();
//   <p class="note">a &lt; b</p>
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::report {

/// For text and for attributes in quotes: markup is escaped; what isn't UTF-8 and
/// control characters become U+FFFD.
std::string escaped(std::string_view text);

/// A coordinate, with at most one decimal.
std::string number(double value);

class Html {
public:
  struct Attribute {
    std::string_view name;
    std::string value;
  };
  using Attributes = std::initializer_list<Attribute>;

  Html &open(std::string_view tag, Attributes attributes = {});
  Html &close(); ///< the element that was opened last
  Html &leaf(std::string_view tag, Attributes attributes = {}); ///< without content
  Html &text(std::string_view text);
  Html &element(std::string_view tag, Attributes attributes, std::string_view text);
  Html &element(std::string_view tag, std::string_view text) { return element(tag, {}, text); }

  /// A name from the model or the cluster file, which may hold anything: of
  /// bounded length, and its writing direction stays inside.
  Html &name(std::string_view name);
  /// A figure as it is shown, with its value for programs.
  Html &figure(std::string_view id, double value, std::string_view shown);
  /// The style sheet, as it is.
  Html &style(std::string_view css);

  /// The document; closes what is open.
  std::string take();

private:
  void begin(std::string_view tag, Attributes attributes);

  std::string out = "<!DOCTYPE html>\n";
  std::vector<std::string> tags;
};

} // namespace dtc::report
