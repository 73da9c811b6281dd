// Convolution and pooling.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// What convolutions and pools share: a size for each spatial dimension, and the padding before
/// (`low`) and behind (`high`).
struct Window {
  Shape kernel, strides, dilations, low, high;
};

/// A diagnostic where sizes make no sense or, if asked, the window is larger than its input. To be
/// called before a window is used.
llvm::LogicalResult checkWindow(Conversion &node, const Window &window,
                                llvm::ArrayRef<int64_t> sizes, bool fits = true);

/// How many windows there are along each dimension. With ceil_mode as many as start inside the
/// input or its left padding; what the last ones read beyond is padding that is appended here.
Shape countWindows(Window &window, llvm::ArrayRef<int64_t> sizes, bool ceilMode);

/// Of [batch, channel, spatial...]. The bias may be null.
llvm::FailureOr<Tensor> convolve(Conversion &node, const Tensor &x, const Tensor &kernel,
                                 const Tensor *bias, const Window &window, int64_t groups);
llvm::FailureOr<Tensor> maxPool(Conversion &node, const Tensor &input, Window window,
                                bool ceilMode);
/// Where the maximum of each window stands, which maxPool gave: counted over the whole input, rows
/// first. Of equal ones the first is meant. NaN stands for a maximum. `columnsFirst`: positions in
/// a plane are counted by columns.
llvm::FailureOr<Tensor> maxPositions(Conversion &node, const Tensor &input, const Tensor &pooled,
                                     Window window, bool ceilMode, bool columnsFirst);
/// The sum of each window, padding counted as zeros.
llvm::FailureOr<Tensor> sumPool(Conversion &node, const Tensor &input, Window window,
                                bool ceilMode);
llvm::FailureOr<Tensor> averagePool(Conversion &node, const Tensor &input, Window window,
                                    bool ceilMode, bool includePad);
/// The elements under each place of a window, [batch, channel * window, places], summed up where
/// windows overlap: [batch, channel, `image`...]. The window is checked.
llvm::FailureOr<Tensor> sumBlocks(Conversion &node, const Tensor &blocks, const Window &window,
                                  llvm::ArrayRef<int64_t> image);

} // namespace dtc::import
