#include "dtc-rt/ProgramView.h"
#include "ProgramChecker.h"

namespace dtc::rt {

Dims dimsOf(const flatbuffers::Vector<int64_t> *values) {
  return values ? Dims(values->begin(), values->end()) : Dims();
}

Result<ProgramView> ProgramView::open(std::span<const char> bytes, const Manifest &manifest) {
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/64, /*max_tables=*/100'000'000);
  if (bytes.size() < 8 || !fbs::ProgramBufferHasIdentifier(data) ||
      !fbs::VerifyProgramBuffer(verifier))
    return refused("is not a well-formed program");
  ProgramView view;
  view.program = fbs::GetProgram(data);
  ProgramChecker checker(*view.program, manifest);
  if (std::string wrong = checker.run(); !wrong.empty())
    return refused(std::move(wrong));
  return view;
}

} // namespace dtc::rt
