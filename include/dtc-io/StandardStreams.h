// stdin, stdout and stderr, as whoever starts a program left them.
#pragma once

namespace dtc::io {

/// Puts /dev/null where one is closed. Else the next file that is opened has its number, and lines
/// for the terminal are written into it. Called once by each program, before it opens anything.
void occupyStandardStreams();

} // namespace dtc::io
