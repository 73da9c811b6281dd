// Where a file lies that is written under a name.
//
// A file is written beside its place and renamed when it is complete. Where the name is a symbolic
// link, that place is the link's target. Renaming onto the link would replace it, and leave the
// target as it was.
#pragma once

#include <string>

namespace dtc::io {

/// The path at the end of the symbolic links that `path` is, whether a file is there or not. A path
/// that is no link, or whose links go in circles, stays as it is.
std::string endOfLinks(const std::string &path);

} // namespace dtc::io
