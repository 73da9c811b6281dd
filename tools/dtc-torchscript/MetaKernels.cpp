// Shapes of the operators for which LibTorch has no kernel on tensors without data: PyTorch's are
// written in Python.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

namespace dtc::torchscript {

using at::Tensor;
using c10::IntArrayRef;

static Tensor emptyLike(const Tensor &like, IntArrayRef sizes) {
  return at::empty(sizes, like.options());
}

static int64_t each(IntArrayRef list, int64_t i) {
  return list.size() == 1 ? list[0] : list.at(static_cast<size_t>(i));
}

static Tensor convolution(const Tensor &input, const Tensor &weight, const std::optional<Tensor> &,
                          IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                          bool transposed, IntArrayRef outputPadding, int64_t groups) {
  std::vector<int64_t> sizes = {input.size(0),
                                transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t i = 0; i + 2 < input.dim(); ++i) {
    const int64_t in = input.size(i + 2), window = each(dilation, i) * (weight.size(i + 2) - 1);
    const int64_t out = transposed ? (in - 1) * each(stride, i) - 2 * each(padding, i) + window +
                                         each(outputPadding, i) + 1
                                   : (in + 2 * each(padding, i) - window - 1) / each(stride, i) + 1;
    TORCH_CHECK(out > 0, "the output of a convolution would be empty");
    sizes.push_back(out);
  }
  return emptyLike(input, sizes);
}

static Tensor where(const Tensor &condition, const Tensor &self, const Tensor &other) {
  const auto both = at::infer_size(self.sizes(), other.sizes());
  return at::empty(at::infer_size(condition.sizes(), both),
                   self.options().dtype(at::result_type(self, other)));
}

static Tensor indexSelect(const Tensor &self, int64_t dim, const Tensor &index) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (!sizes.empty())
    sizes[c10::maybe_wrap_dim(dim, self.dim())] = index.numel();
  return emptyLike(self, sizes);
}

static std::tuple<Tensor, Tensor, Tensor>
batchNorm(const Tensor &input, const std::optional<Tensor> &, const std::optional<Tensor> &,
          const std::optional<Tensor> &, const std::optional<Tensor> &, bool training, double,
          double) {
  const Tensor statistics = emptyLike(input, {training ? input.size(1) : 0});
  return {at::empty_like(input), statistics, statistics.clone()};
}

static std::vector<int64_t> reduced(const Tensor &self, const at::OptionalIntArrayRef &dims,
                                    bool keepdim) {
  std::vector<bool> gone(self.dim(), !dims || dims->empty());
  if (dims)
    for (int64_t dim : *dims)
      gone[c10::maybe_wrap_dim(dim, self.dim())] = true;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (!gone[i] || keepdim)
      sizes.push_back(gone[i] ? 1 : self.size(i));
  return sizes;
}

static Tensor variance(const Tensor &self, at::OptionalIntArrayRef dims,
                       const std::optional<at::Scalar> &, bool keepdim) {
  return emptyLike(self, reduced(self, dims, keepdim));
}

static std::tuple<Tensor, Tensor> varianceAndMean(const Tensor &self, at::OptionalIntArrayRef dims,
                                                  const std::optional<at::Scalar> &, bool keepdim) {
  const Tensor result = emptyLike(self, reduced(self, dims, keepdim));
  return {result, at::empty_like(result)};
}

static Tensor floorDivide(const Tensor &self, const Tensor &other) {
  return at::empty(at::infer_size(self.sizes(), other.sizes()),
                   self.options().dtype(at::result_type(self, other)));
}

static Tensor distances(const Tensor &a, const Tensor &b, double, std::optional<int64_t>) {
  std::vector<int64_t> sizes =
      at::infer_size(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  sizes.insert(sizes.end(), {a.size(-2), b.size(-2)});
  return emptyLike(a, sizes);
}

/// The sums or means of bags, and what only the gradient needs.
static std::tuple<Tensor, Tensor, Tensor, Tensor>
embeddingBag(const Tensor &weight, const Tensor &indices, const Tensor &offsets, bool, int64_t,
             bool, const std::optional<Tensor> &, bool includeLast, int64_t) {
  const int64_t bags = offsets.size(0) - (includeLast ? 1 : 0);
  return {emptyLike(weight, {bags, weight.size(1)}), at::empty_like(indices),
          emptyLike(offsets, {bags}), emptyLike(offsets, {bags})};
}

static Tensor sameShape(const Tensor &self) { return at::empty_like(self); }

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("convolution_overrideable", convolution);
  m.impl("where.self", where);
  m.impl("index_select", indexSelect);
  m.impl("native_batch_norm", batchNorm);
  m.impl("var.correction", variance);
  m.impl("std.correction", variance);
  m.impl("var_mean.correction", varianceAndMean);
  m.impl("floor_divide", floorDivide);
  m.impl("abs", sameShape);
  m.impl("_cdist_forward", distances);
  m.impl("_embedding_bag", embeddingBag);
  m.impl("_embedding_bag_forward_only", embeddingBag);
}

} // namespace dtc::torchscript
