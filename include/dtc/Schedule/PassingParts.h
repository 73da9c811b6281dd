// In what parts a tensor's offloaded states pass through the device.
//
// A part of a parameter's states is copied to the device, updated and copied back, while the next
// part arrives and the last one leaves. So the device holds a few parts, however large the
// parameter is:
//
//   262 M elements with two states of 4 bytes     2.1 GB of states, in 32 parts of 8 M elements
//                                                 3 x 64 MiB of states on the device at a time
//
// What is on its way to and from a host goes at 25 GB/s. To start a copy takes about 10 us, in
// which PCIe would move 250 KB. A part of 64 MiB is copied as two or three tensors each way, so
// that starts take about 1 % of the time. Larger parts would gain nothing and hold more.
#pragma once

#include <cstdint>

namespace dtc::schedule {

/// Of all states of a parameter that pass at a time.
constexpr int64_t kPassingBytes = 64 << 20;

/// Elements of a part, whose states take so many bytes an element. Kernels read and write whole
/// accesses of all parts but the last.
constexpr int64_t passingElements(int64_t bytesPerElement, int64_t most = kPassingBytes) {
  constexpr int64_t kMultiple = 1024;
  const int64_t elements = most / bytesPerElement;
  if (elements < kMultiple)
    return elements > 1 ? elements : 1;
  return elements - elements % kMultiple;
}

} // namespace dtc::schedule
