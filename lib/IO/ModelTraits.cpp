#include "dtc-io/ModelTraits.h"

#include "dtc-io/AttentionWindows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <sstream>

namespace dtc::io {
namespace {

/// A constant in bf16 is off by 0.4 %.
constexpr double kOfConstants = 0.01;
/// Relative to the largest result, how much files of one model may differ by how they round
/// constants. One file of halves has a table of cosines rounded to its type, where another computes
/// them.
double mostOfResults(const std::string &shapes) {
  return shapes.find("bf16") != std::string::npos  ? 2e-2
         : shapes.find("f16") != std::string::npos ? 3e-3
                                                   : 2e-4;
}

/// Between angles and sizes.
constexpr const char *kOfInputs = " in inputs of ";

std::string numberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", number);
  return text;
}

/// As far as the text is numbers.
std::vector<double> numbersIn(std::string text) {
  std::replace(text.begin(), text.end(), ';', ' ');
  std::istringstream words(text);
  std::vector<double> result;
  for (double number; words >> number;)
    result.push_back(number);
  return result;
}

/// Whether one of them has all that the other has. A file may spell out a layer so that nothing is
/// known of it.
bool areConstantsAlike(const std::string &one, const std::string &other) {
  std::vector<double> more = numbersIn(one), fewer = numbersIn(other);
  if (more.size() < fewer.size())
    std::swap(more, fewer);
  return std::all_of(fewer.begin(), fewer.end(), [&](double number) {
    return std::any_of(more.begin(), more.end(), [&](double each) {
      return std::fabs(each - number) <= kOfConstants * std::fabs(number);
    });
  });
}

bool areAnglesAlike(const std::string &one, const std::string &other) {
  const auto sizesOf = [](const std::string &text) {
    return text.substr(std::min(text.find(kOfInputs), text.size()));
  };
  return sizesOf(one) != sizesOf(other) || areConstantsAlike(one, other);
}

/// Whether one of them has all that the other has: a file may spell out attention.
bool areMasksAlike(const std::string &one, const std::string &other) {
  const auto masksOf = [](const std::string &text) {
    std::set<std::string> masks;
    std::istringstream words(text);
    for (std::string mask; std::getline(words >> std::ws, mask, ';');)
      masks.insert(mask);
    return masks;
  };
  const auto a = masksOf(one), b = masksOf(other);
  return std::includes(a.begin(), a.end(), b.begin(), b.end()) ||
         std::includes(b.begin(), b.end(), a.begin(), a.end());
}

/// What was taken of an input, and of what.
struct TakenInput {
  std::vector<int64_t> taken, whole;
  std::string rest; ///< behind both
};

/// Nothing where a text says something else.
std::optional<TakenInput> parseInput(const std::string &text) {
  std::istringstream words(text);
  std::string input, taken, of, whole;
  TakenInput result;
  if (!(words >> input >> taken >> of >> whole) || input != "input" || of != "of")
    return std::nullopt;
  std::getline(words, result.rest);
  for (auto [dims, sizes] : {std::pair(&taken, &result.taken), std::pair(&whole, &result.whole)}) {
    std::replace(dims->begin(), dims->end(), 'x', ' ');
    std::istringstream numbers(*dims);
    for (int64_t size; numbers >> size;)
      sizes->push_back(size);
  }
  return result.taken.size() == result.whole.size() ? std::optional(result) : std::nullopt;
}

/// Whether one of them needs less along each dimension that differs, and less than it was given: so
/// nothing else matters.
bool areComparable(const std::string &one, const std::string &other) {
  if (one == other)
    return true;
  const auto a = parseInput(one), b = parseInput(other);
  if (!a || !b || a->taken.size() != b->taken.size() || a->rest != b->rest)
    return false;
  for (size_t i = 0; i < a->taken.size(); ++i) {
    const TakenInput &less = a->taken[i] < b->taken[i] ? *a : *b;
    if (a->taken[i] != b->taken[i] && less.taken[i] >= less.whole[i])
      return false;
  }
  return true;
}

std::vector<std::string> partsOf(const std::string &head) {
  std::vector<std::string> parts;
  std::istringstream items(head);
  for (std::string item; std::getline(items >> std::ws, item, ',');)
    parts.push_back(item);
  return parts;
}

bool areResultsAlike(const std::string &one, const std::string &other) {
  const size_t end = one.find(':'), otherEnd = other.find(':');
  if (end == std::string::npos || otherEnd == std::string::npos)
    return one == other;
  const auto parts = partsOf(one.substr(0, end)), others = partsOf(other.substr(0, otherEnd));
  if (!std::equal(parts.begin(), parts.end(), others.begin(), others.end(), areComparable))
    return true;
  const std::vector<double> a = numbersIn(one.substr(end + 1)),
                            b = numbersIn(other.substr(otherEnd + 1));
  if (a.size() != b.size())
    return false;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max({largest, std::fabs(a[i]), std::fabs(b[i])});
    difference = std::max(difference, std::fabs(a[i] - b[i]));
  }
  return difference <= mostOfResults(parts.front()) * largest;
}

} // namespace

std::string numbersText(const std::vector<double> &numbers) {
  std::string text;
  for (double number : numbers)
    text += (text.empty() ? "" : "; ") + numberText(number);
  return text;
}

std::string anglesText(const std::vector<double> &angles, const std::string &sizes) {
  return numbersText(angles) + kOfInputs + sizes;
}

std::string resultsText(const std::string &shapes, const std::vector<double> &values) {
  constexpr size_t most = 16;
  std::string text = shapes + ":";
  const size_t step = std::max<size_t>((values.size() + most - 1) / most, 1);
  for (size_t i = 0; i < values.size(); i += step)
    text += " " + numberText(values[i]);
  return text;
}

bool areTraitsAlike(const std::string &name, const std::string &one, const std::string &other) {
  if (name == kWindowsTrait)
    return areWindowsAlike(one, other);
  if (name == kMasksTrait)
    return areMasksAlike(one, other);
  if (name == kScaleTrait)
    return areConstantsAlike(one, other);
  if (name == kAnglesTrait)
    return areAnglesAlike(one, other);
  return name == kResultsTrait ? areResultsAlike(one, other) : one == other;
}

} // namespace dtc::io
