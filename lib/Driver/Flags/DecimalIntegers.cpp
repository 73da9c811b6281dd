// Integers of flags, as people write them.
#include "CommandLine.h"

#include "dtc-io/WholeNumber.h"

#include <limits>

namespace dtc::driver {

void takeDecimalIntegers(CLI::App &command) {
  const CLI::Validator isWhole(
      [](std::string &text) {
        using Limits = std::numeric_limits<int64_t>;
        return io::checkWholeNumber(text, Limits::min(), static_cast<uint64_t>(Limits::max()));
      },
      "");
  for (CLI::Option *option : command.get_options())
    if (option->get_type_name() == "INT")
      option->transform(isWhole);
}

} // namespace dtc::driver
