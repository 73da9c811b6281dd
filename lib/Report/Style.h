// The look of the page that --report writes.
#pragma once

#include <string>

namespace dtc::report {

/// The page's style sheet: light and dark, on paper, narrow and wide.
std::string styleSheet();

} // namespace dtc::report
