// Numbers of flags, as people write them.
#include "CommandLine.h"

#include "dtc-io/WholeNumber.h"

#include <limits>

namespace dtc::driver {

void takeNumbers(CLI::App &command) {
  const CLI::Validator isWhole(
      [](std::string &text) {
        using Limits = std::numeric_limits<int64_t>;
        return io::checkWholeNumber(text, Limits::min(), static_cast<uint64_t>(Limits::max()));
      },
      "");
  const CLI::Validator isNumber(
      [](std::string &text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) ? ""
                                                       : "expected a number, got '" + text + "'";
      },
      "");
  for (CLI::Option *option : command.get_options())
    if (option->get_type_name() == "INT")
      option->transform(isWhole);
    else if (option->get_type_name() == "FLOAT")
      option->check(isNumber);
}

} // namespace dtc::driver
