// What ends an emulated device: a driver's result code, and a sentence that says what happened
// where.
#pragma once

#include <stdexcept>
#include <string>

namespace dtc::emulator {

/// Thrown by whatever finds a mistake. The stream's worker or the API's entry catches it: `code` is
/// a CUresult, which the caller of the driver gets, and the message is printed once.
class Fault : public std::runtime_error {
public:
  Fault(int code, const std::string &message, bool isReported = false)
      : std::runtime_error(message), code(code), isReported(isReported) {}
  int code;
  bool isReported; // was printed before
};

inline void require(bool condition, int code, const std::string &message) {
  if (!condition)
    throw Fault(code, message);
}

/// A number as addresses are printed: 0x7f….
std::string hex(unsigned long long value);

} // namespace dtc::emulator
