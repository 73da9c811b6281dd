#include "Calls.h"

#include <nanobind/stl/string.h>

namespace dtc::python {

Strings::Strings(const std::vector<std::string> &strings) {
  for (const std::string &each : strings)
    pointers.push_back(each.c_str());
}

void Warnings::raise() const {
  if (texts.empty())
    return;
  nb::object warn = nb::module_::import_("dtc._errors").attr("warn");
  for (const std::string &text : texts)
    warn(text);
}

void raise(DtcError *error) {
  if (!error)
    return;
  nb::object make = nb::module_::import_("dtc._errors").attr("error_of");
  nb::object exception =
      make(int(dtcErrorCategory(error)), dtcErrorText(error), bool(dtcErrorIsUnsupported(error)));
  dtcErrorDestroy(error);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

nb::str toStr(DtcText *text) {
  nb::str result(dtcTextData(text), dtcTextSize(text));
  dtcTextDestroy(text);
  return result;
}

} // namespace dtc::python
