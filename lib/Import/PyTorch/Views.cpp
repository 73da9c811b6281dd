#include "Views.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace dtc::import {

StringRef baseOf(StringRef op) { return op.split('.').second.split('.').first; }

Sharing sharingOf(StringRef op) {
  static const StringSet<> always = {"alias",
                                     "broadcast_tensors",
                                     "broadcast_to",
                                     "chunk",
                                     "detach",
                                     "diagonal",
                                     "expand",
                                     "expand_as",
                                     "lift_fresh",
                                     "mT",
                                     "meshgrid",
                                     "moveaxis",
                                     "movedim",
                                     "narrow",
                                     "numpy_T",
                                     "permute",
                                     "positive",
                                     "select",
                                     "slice",
                                     "split",
                                     "split_with_sizes",
                                     "squeeze",
                                     "swapaxes",
                                     "swapdims",
                                     "t",
                                     "transpose",
                                     "unbind",
                                     "unflatten",
                                     "unfold",
                                     "unsqueeze",
                                     "view",
                                     "view_as",
                                     "unsafe_chunk",
                                     "unsafe_split",
                                     "unsafe_split_with_sizes"};
  static const StringSet<> perhaps = {"_unsafe_view", "contiguous", "dropout", "flatten",
                                      "reshape",      "reshape_as", "to",      "type_as"};
  const StringRef base = baseOf(op);
  return always.contains(base)    ? Sharing::Always
         : perhaps.contains(base) ? Sharing::Perhaps
                                  : Sharing::Never;
}

const ValueName *sharedBy(const AtenNode &node, size_t result) {
  if (node.arguments.empty() || sharingOf(node.op) == Sharing::Never)
    return nullptr;
  const Argument &first = node.arguments.front().value;
  const ArgumentList *list = first.as<ArgumentList>();
  if (!list)
    return first.as<ValueName>();
  return result < list->size() ? (*list)[result].as<ValueName>() : nullptr;
}

static NamedArgument tensor(StringRef name, const std::string &value) {
  return {name.str(), Argument{ValueName{value}}};
}

/// A node in the view's place in the source.
static AtenNode nodeOf(const View &view, StringRef op, std::vector<NamedArgument> arguments) {
  AtenNode node = view.node;
  node.op = op.str();
  node.arguments = std::move(arguments);
  node.results.clear();
  return node;
}

/// The view's own arguments, but for the tensor that it is of.
static void addOthers(const View &view, std::vector<NamedArgument> &to) {
  for (const NamedArgument &argument : drop_begin(view.node.arguments))
    to.push_back(argument);
}

/// Of narrow: nothing where its sizes aren't numbers.
static std::optional<AtenNode> putNarrowBack(const View &view, const std::string &whole,
                                             const std::string &part) {
  auto find = [&](StringRef name) { return view.node.argument(name); };
  const Argument *dim = find("dim"), *start = find("start"), *length = find("length");
  if (!dim || !start || !length || !start->as<int64_t>() || !length->as<int64_t>() ||
      *start->as<int64_t>() < 0)
    return std::nullopt;
  const int64_t begin = *start->as<int64_t>();
  return nodeOf(view, "aten.slice_scatter.default",
                {tensor("self", whole),
                 tensor("src", part),
                 {"dim", *dim},
                 {"start", Argument{begin}},
                 {"end", Argument{begin + *length->as<int64_t>()}}});
}

/// permute(permute(x, dims), the result) is x.
static std::optional<Argument> permutedBack(const AtenNode &permute) {
  const Argument *dims = permute.argument("dims");
  const ArgumentList *list = dims ? dims->as<ArgumentList>() : nullptr;
  if (!list)
    return std::nullopt;
  const auto rank = static_cast<int64_t>(list->size());
  ArgumentList back(list->size());
  for (auto [i, each] : enumerate(*list)) {
    const int64_t *dim = each.as<int64_t>();
    if (!dim || *dim < -rank || *dim >= rank)
      return std::nullopt;
    back[(*dim + rank) % rank] = Argument{static_cast<int64_t>(i)};
  }
  return Argument{std::move(back)};
}

std::optional<AtenNode> putBack(const View &view, const std::string &whole,
                                const std::string &part) {
  const StringRef base = baseOf(view.node.op);
  if (StringRef(view.node.op).ends_with(".dtype")) // the same bits as another type
    return std::nullopt;
  auto is = [&](std::initializer_list<StringRef> names) { return is_contained(names, base); };
  std::vector<NamedArgument> arguments = {tensor("self", whole), tensor("src", part)};
  if (is({"slice", "select"})) {
    addOthers(view, arguments);
    return nodeOf(view,
                  base == "slice" ? "aten.slice_scatter.default" : "aten.select_scatter.default",
                  std::move(arguments));
  }
  if (base == "narrow")
    return putNarrowBack(view, whole, part);
  arguments = {tensor("self", part)};
  if (is({"t", "mT", "numpy_T", "swapaxes", "swapdims", "transpose"})) { // each is its own inverse
    addOthers(view, arguments);
    return nodeOf(view, view.node.op, std::move(arguments));
  }
  if (base == "permute") {
    std::optional<Argument> dims = permutedBack(view.node);
    if (!dims)
      return std::nullopt;
    arguments.push_back({"dims", std::move(*dims)});
    return nodeOf(view, view.node.op, std::move(arguments));
  }
  if (is({"alias", "lift_fresh", "positive", "squeeze", "unflatten", "unsqueeze", "view",
          "view_as"})) {
    arguments.push_back(tensor("other", whole));
    return nodeOf(view, "aten.view_as.default", std::move(arguments));
  }
  return std::nullopt;
}

} // namespace dtc::import
