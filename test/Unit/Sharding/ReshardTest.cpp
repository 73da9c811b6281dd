// Every reshard is played through on a grid of ranks and compared with the
// shards cut directly.
#include "dtc/Sharding/Reshard.h"

#include "Enumerate.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

namespace {

using Shape = std::vector<int64_t>;

/// A small dense matrix.
struct Matrix {
  Shape shape{0, 0};
  std::vector<int64_t> data;
  Matrix() = default;
  explicit Matrix(const Shape &shape) : shape(shape), data(shape[0] * shape[1]) {}
  int64_t &at(int64_t i, int64_t j) { return data[i * shape[1] + j]; }
  bool operator==(const Matrix &) const = default;
};

Matrix cut(Matrix &whole, const Shape &offset, const Shape &shape) {
  Matrix result(shape);
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      result.at(i, j) = whole.at(offset[0] + i, offset[1] + j);
  return result;
}

/// Part `index` of `parts` along `dim`.
Matrix part(Matrix &whole, int dim, int64_t index, int64_t parts) {
  Shape shape = whole.shape, offset = {0, 0};
  shape[dim] /= parts;
  offset[dim] = index * shape[dim];
  return cut(whole, offset, shape);
}

Matrix join(std::vector<Matrix> parts, int dim) {
  Shape shape = parts[0].shape;
  shape[dim] *= parts.size();
  Matrix result(shape);
  for (size_t p = 0; p < parts.size(); ++p)
    for (int64_t i = 0; i < parts[p].shape[0]; ++i)
      for (int64_t j = 0; j < parts[p].shape[1]; ++j) {
        int64_t offset = p * parts[p].shape[dim];
        result.at(i + (dim == 0 ? offset : 0), j + (dim == 1 ? offset : 0)) = parts[p].at(i, j);
      }
  return result;
}

Matrix reduce(std::vector<Matrix> terms, ReduceKind kind) {
  Matrix result = terms[0];
  for (size_t t = 1; t < terms.size(); ++t)
    for (size_t i = 0; i < result.data.size(); ++i) {
      int64_t a = result.data[i], b = terms[t].data[i];
      result.data[i] = kind == ReduceKind::Sum   ? a + b
                       : kind == ReduceKind::Max ? std::max(a, b)
                                                 : std::min(a, b);
    }
  return result;
}

/// What each rank holds.
using Grid = std::vector<Matrix>;

class Player {
public:
  Player(const Mesh &mesh, const Shape &shape) : mesh(mesh), whole(shape) {
    for (size_t i = 0; i < whole.data.size(); ++i)
      whole.data[i] = static_cast<int64_t>((i * 37) % 101) + 1;
  }

  /// Shards of the tensor; where it is partial, terms that give it.
  Grid spread(const TensorSharding &sharding) {
    AxisList partial;
    ReduceKind kind = ReduceKind::Sum;
    for (const Partial &p : sharding.partial) {
      partial.push_back(p.axis);
      kind = p.kind;
    }
    Grid grid;
    for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
      Matrix shard = cut(whole, sharding.localOffset(whole.shape, mesh, rank),
                         sharding.localShape(whole.shape, mesh));
      int64_t terms = mesh.size(partial), position = mesh.position(rank, partial);
      for (int64_t &value : shard.data)
        value = term(value, position, terms, kind);
      grid.push_back(shard);
    }
    return grid;
  }

  Grid run(const Grid &grid, const ReshardStep &step, const TensorSharding &before) {
    Grid next;
    std::vector<int64_t> sources;
    if (step.kind == StepKind::Permute)
      sources = permuteSources(before, step.after, step.axes, mesh);
    for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
      std::vector<Matrix> group;
      for (int64_t member : mesh.group(rank, step.axes))
        group.push_back(grid[member]);
      next.push_back(runOne(std::move(group), step, mesh.position(rank, step.axes), sources));
    }
    return next;
  }

  /// Resolves what is still partial and compares with the tensor's shards.
  void expectHolds(const Grid &grid, const TensorSharding &sharding, const std::string &what) {
    AxisList partial;
    ReduceKind kind = ReduceKind::Sum;
    for (const Partial &p : sharding.partial) {
      partial.push_back(p.axis);
      kind = p.kind;
    }
    for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
      std::vector<Matrix> group;
      for (int64_t member : mesh.group(rank, partial))
        group.push_back(grid[member]);
      Matrix expected = cut(whole, sharding.localOffset(whole.shape, mesh, rank),
                            sharding.localShape(whole.shape, mesh));
      ASSERT_EQ(reduce(group, kind), expected) << what << " on rank " << rank;
    }
  }

private:
  static int64_t term(int64_t value, int64_t position, int64_t terms, ReduceKind kind) {
    if (terms == 1)
      return value;
    if (kind == ReduceKind::Sum) // 1 + 2 + ... on the others
      return position > 0 ? position * 7 : value - 7 * terms * (terms - 1) / 2;
    bool holder = position == value % terms;
    return holder ? value : kind == ReduceKind::Max ? value - 1 - position : value + 1 + position;
  }

  Matrix runOne(std::vector<Matrix> group, const ReshardStep &step, int64_t position,
                const std::vector<int64_t> &sources) {
    auto parts = static_cast<int64_t>(group.size());
    switch (step.kind) {
    case StepKind::AllReduce:
      return reduce(group, step.reduce);
    case StepKind::ReduceScatter: {
      Matrix sum = reduce(group, step.reduce);
      return part(sum, step.dim, position, parts);
    }
    case StepKind::AllGather:
      return join(group, step.dim);
    case StepKind::Slice:
      return part(group[position], step.dim, position, parts);
    case StepKind::Permute:
      return group[sources[position]];
    case StepKind::AllToAll:
      for (Matrix &m : group)
        m = part(m, step.dim, position, parts);
      return join(group, step.concatDim);
    }
    return {};
  }

  const Mesh &mesh;
  Matrix whole;
};

/// Whether some axis is partial in `to` but not in `from`.
bool addsPending(const TensorSharding &from, const TensorSharding &to) {
  return std::any_of(to.partial.begin(), to.partial.end(),
                     [&](const Partial &p) { return !from.isPartial(p.axis); });
}

void playAll(const Mesh &mesh, const Shape &shape, ReduceKind kind) {
  Player player(mesh, shape);
  std::vector<TensorSharding> all = allShardings(2, mesh, kind);
  for (const TensorSharding &from : all) {
    Grid start = player.spread(from);
    for (const TensorSharding &to : all) {
      std::string what = from.str(mesh) + " -> " + to.str(mesh);
      auto steps = reshard(from, to, mesh);
      ASSERT_EQ(steps.has_value(), !addsPending(from, to)) << what;
      if (!steps)
        continue;
      ASSERT_EQ(steps->empty(), from == to) << what;
      Grid grid = start;
      TensorSharding now = from;
      for (const ReshardStep &step : *steps) {
        ASSERT_EQ(step.after.check(shape, mesh), "") << what;
        grid = player.run(grid, step, now);
        now = step.after;
        ASSERT_NO_FATAL_FAILURE(player.expectHolds(grid, now, what));
      }
      ASSERT_EQ(now, to) << what;
    }
  }
}

Mesh meshOf(std::vector<int64_t> sizes) {
  Mesh mesh;
  for (int64_t size : sizes) {
    std::string name(1, static_cast<char>('a' + mesh.axes.size()));
    mesh.axes.push_back({name, name, size});
  }
  return mesh;
}

} // namespace

TEST(Reshard, AllPairsOn2x2) { playAll(meshOf({2, 2}), {8, 12}, ReduceKind::Sum); }
TEST(Reshard, AllPairsOn2x3) { playAll(meshOf({2, 3}), {6, 12}, ReduceKind::Sum); }
TEST(Reshard, AllPairsOn2x2x2) { playAll(meshOf({2, 2, 2}), {8, 8}, ReduceKind::Sum); }
TEST(Reshard, AllPairsOfMaxima) { playAll(meshOf({3, 2}), {6, 6}, ReduceKind::Max); }
TEST(Reshard, AllPairsOfMinima) { playAll(meshOf({2, 2}), {4, 4}, ReduceKind::Min); }

namespace {
const Mesh mesh{{{"dp", "dp", 2}, {"tp", "tp", 4}}};
constexpr AxisId dp = 0, tp = 1;
const std::vector<Partial> sumTp = {{tp, ReduceKind::Sum}};

void expectOne(const TensorSharding &from, const TensorSharding &to, StepKind kind, AxisList axes,
               int dim = -1, int concatDim = -1) {
  auto steps = reshard(from, to, mesh);
  ASSERT_TRUE(steps && steps->size() == 1) << from.str(mesh) << " -> " << to.str(mesh);
  EXPECT_EQ(steps->front(), (ReshardStep{kind, axes, dim, concatDim, ReduceKind::Sum, to}));
}
} // namespace

TEST(Reshard, OneStepEach) {
  expectOne({{{dp}, {}}, sumTp}, {{{dp}, {}}, {}}, StepKind::AllReduce, {tp});
  expectOne({{{dp}, {}}, sumTp}, {{{dp}, {tp}}, {}}, StepKind::ReduceScatter, {tp}, 1);
  expectOne({{{dp}, {tp}}, {}}, {{{dp}, {}}, {}}, StepKind::AllGather, {tp}, 1);
  expectOne({{{dp}, {}}, {}}, {{{dp}, {tp}}, {}}, StepKind::Slice, {tp}, 1);
  expectOne({{{tp}, {}}, {}}, {{{}, {tp}}, {}}, StepKind::AllToAll, {tp}, 1, 0);
  expectOne({{{dp, tp}, {}}, {}}, {{{tp, dp}, {}}, {}}, StepKind::Permute, {dp, tp});
}

TEST(Reshard, SlicesBeforeItReduces) {
  auto steps = reshard({{{}, {}}, sumTp}, {{{dp}, {}}, {}}, mesh);
  ASSERT_TRUE(steps && steps->size() == 2);
  EXPECT_EQ((*steps)[0].kind, StepKind::Slice);
  EXPECT_EQ((*steps)[1].kind, StepKind::AllReduce);
}

TEST(Reshard, MixedKindsTakeOneReductionEach) {
  TensorSharding from{{{}}, {{dp, ReduceKind::Sum}, {tp, ReduceKind::Max}}};
  auto steps = reshard(from, TensorSharding::replicated(1), mesh);
  ASSERT_TRUE(steps && steps->size() == 2);
  EXPECT_EQ((*steps)[0].reduce, ReduceKind::Sum);
  EXPECT_EQ((*steps)[1].reduce, ReduceKind::Max);
}

TEST(Reshard, OtherRankOrKindHasNoWay) {
  EXPECT_FALSE(reshard(TensorSharding::replicated(1), TensorSharding::replicated(2), mesh));
  EXPECT_FALSE(reshard({{{}}, sumTp}, {{{}}, {{tp, ReduceKind::Max}}}, mesh));
}

TEST(Reshard, PermuteKeepsWhatIsInPlace) {
  TensorSharding before{{{dp, tp}}, {}}, after{{{tp, dp}}, {}};
  std::vector<int64_t> sources = permuteSources(before, after, {dp, tp}, mesh);
  // Rank dp=d, tp=t holds part 4d+t and needs part 2t+d.
  EXPECT_EQ(sources, (std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(Reshard, StepBytesTakeTheLargerSide) {
  TensorSharding split{{{dp}, {tp}}, {}}, whole{{{dp}, {}}, {}};
  auto gather = reshard(split, whole, mesh);
  EXPECT_EQ(stepBytes(gather->front(), split, {8, 64}, 4, mesh), 4 * 64 * 4);
  auto slice = reshard(whole, split, mesh);
  EXPECT_EQ(stepBytes(slice->front(), whole, {8, 64}, 4, mesh), 4 * 64 * 4);
}
