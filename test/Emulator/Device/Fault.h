// What ends an emulated device: a driver's result code, and a sentence that says what happened
// where.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace dtc::emulator {

/// Texts and numbers as one text.
template <typename... Part> std::string concat(const Part &...parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Thrown by whatever finds a mistake. The stream's worker or the API's entry catches it: `code` is
/// a CUresult, which the caller of the driver gets, and the message is printed once.
class Fault : public std::runtime_error {
public:
  template <typename... Part>
  explicit Fault(int code, const Part &...parts)
      : std::runtime_error(concat(parts...)), code(code) {}
  static Fault reported(int code, const std::string &message) {
    Fault fault(code, message);
    fault.isReported = true;
    return fault;
  }

  int code;
  bool isReported = false; // was printed before
};

/// The parts become the message.
template <typename... Part> void require(bool condition, int code, const Part &...parts) {
  if (!condition)
    throw Fault(code, parts...);
}

/// A number as addresses are printed: 0x7f….
std::string hex(unsigned long long value);

} // namespace dtc::emulator
