#include "Html.h"

#include <cstdio>

namespace dtc::report {

/// Bytes of the UTF-8 character at the beginning of a text; 0: it is none
/// (Unicode 15, table 3-7).
static size_t characterLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  auto follows = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  unsigned first = byte(0);
  if (first < 0x80)
    return 1;
  if (first >= 0xC2 && first <= 0xDF)
    return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF)
    return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3
                                                                                              : 0;
  if (first >= 0xF0 && first <= 0xF4)
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) &&
                   follows(3)
               ? 4
               : 0;
  return 0;
}

static bool isControl(std::string_view character) {
  auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2) // U+0080 to U+009F
    return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return character.size() == 1 &&
         ((first < 0x20 && first != '\t' && first != '\n') || first == 0x7F);
}

std::string escaped(std::string_view text) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string result;
  while (!text.empty()) {
    size_t length = characterLength(text);
    std::string_view character = text.substr(0, length ? length : 1);
    text.remove_prefix(character.size());
    if (!length || isControl(character))
      result += kReplacement;
    else if (character == "&")
      result += "&amp;";
    else if (character == "<")
      result += "&lt;";
    else if (character == ">")
      result += "&gt;";
    else if (character == "\"")
      result += "&quot;";
    else if (character == "'")
      result += "&#39;";
    else
      result += character;
  }
  return result;
}

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", value);
  std::string result = text;
  if (result.ends_with(".0"))
    result.resize(result.size() - 2);
  return result == "-0" ? "0" : result;
}

void Html::begin(std::string_view tag, Attributes attributes) {
  out += '<';
  out += tag;
  for (const Attribute &attribute : attributes) {
    out += ' ';
    out += attribute.name;
    out += "=\"" + escaped(attribute.value) + '"';
  }
}

Html &Html::open(std::string_view tag, Attributes attributes) {
  begin(tag, attributes);
  out += '>';
  tags.emplace_back(tag);
  return *this;
}

Html &Html::close() {
  out += "</" + tags.back() + ">\n";
  tags.pop_back();
  return *this;
}

Html &Html::leaf(std::string_view tag, Attributes attributes) {
  begin(tag, attributes);
  out += "/>\n";
  return *this;
}

Html &Html::text(std::string_view text) {
  out += escaped(text);
  return *this;
}

Html &Html::element(std::string_view tag, Attributes attributes, std::string_view content) {
  begin(tag, attributes);
  out += '>' + escaped(content) + "</";
  out += tag;
  out += '>';
  return *this;
}

Html &Html::name(std::string_view name) {
  static constexpr size_t kLongest = 160;
  open("code");
  if (name.size() <= kLongest) {
    element("bdi", name);
  } else {
    // Not within a character.
    size_t head = kLongest / 2, tail = name.size() - kLongest / 2;
    auto inside = [&](size_t at) { return (static_cast<unsigned char>(name[at]) & 0xC0) == 0x80; };
    for (int i = 0; i < 3 && inside(head); ++i)
      --head;
    for (int i = 0; i < 3 && tail < name.size() && inside(tail); ++i)
      ++tail;
    element("bdi", std::string(name.substr(0, head)) + " \u2026 " + std::string(name.substr(tail)));
  }
  out += "</code>";
  tags.pop_back();
  return *this;
}

Html &Html::figure(std::string_view id, double value, std::string_view shown) {
  char exact[64];
  std::snprintf(exact, sizeof(exact), "%.17g", value);
  return element("data", {{"id", std::string(id)}, {"value", exact}}, shown);
}

Html &Html::style(std::string_view css) {
  out += "<style>";
  out += css;
  out += "</style>\n";
  return *this;
}

std::string Html::take() {
  while (!tags.empty())
    close();
  return std::move(out);
}

} // namespace dtc::report
