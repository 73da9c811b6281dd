#include "Error.h"

using namespace dtc;

DtcCategory dtcErrorCategory(const DtcError *error) { return error->category; }
int dtcErrorIsUnsupported(const DtcError *error) { return error->isUnsupported; }
const char *dtcErrorText(const DtcError *error) { return error->text.c_str(); }
void dtcErrorDestroy(DtcError *error) { delete error; }

const char *dtcTextData(const DtcText *text) { return text->text.c_str(); }
size_t dtcTextSize(const DtcText *text) { return text->text.size(); }
void dtcTextDestroy(DtcText *text) { delete text; }

namespace dtc::capi {

static DtcCategory categoryOf(ErrorCategory category) {
  switch (category) {
  case ErrorCategory::Usage:
    return DTC_USAGE;
  case ErrorCategory::InputRefused:
    return DTC_INPUT_REFUSED;
  case ErrorCategory::NoFit:
    return DTC_NO_FIT;
  case ErrorCategory::RankLost:
    return DTC_RANK_LOST;
  case ErrorCategory::NotFinite:
    return DTC_NOT_FINITE;
  default:
    return DTC_FAILED;
  }
}

void Report::add(driver::Severity severity, const std::string &line) {
  if (severity != driver::Severity::Note)
    isAboutError = severity != driver::Severity::Warning;
  isUnsupported |= severity == driver::Severity::Unsupported;
  if (isAboutError)
    errors += (errors.empty() ? "" : "\n") + line;
  else if (handler)
    handler(line.c_str(), context);
}

DtcError *Report::errorOf(driver::Failure failure) {
  if (!failure)
    return nullptr;
  return new DtcError{categoryOf(*failure), errors,
                      isUnsupported && *failure == ErrorCategory::InputRefused};
}

DtcError *errorOf(const rt::Status &status) {
  return status.isOk() ? nullptr
                       : new DtcError{categoryOf(status.error().category), status.message()};
}

} // namespace dtc::capi
