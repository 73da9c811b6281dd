// A model with its plan, for callers who ask more than once: what `dtc plan` answers, piece by
// piece.
//
//   auto model = PlannedModel::create(options);   // imports, plans
//   model->text();                                // the table
//   model->explain("tp");                         // what other degrees would cost
//
// What fails has been said (Diagnostics.h). One caller at a time.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Driver/Outcome.h"

#include <memory>

namespace dtc::driver {

class PlannedModel {
public:
  static Outcome<std::unique_ptr<PlannedModel>> create(Options options);
  ~PlannedModel();

  /// What may not be what it seems, of a plan that was made.
  std::vector<std::string> warnings() const;
  std::string text() const;
  /// As `--json`, with what has been explained.
  std::string json() const;
  /// As `--save-plan`, `--report` and `--trace` write it.
  std::string yaml() const;
  Outcome<std::string> page() const;
  Outcome<std::string> trace() const;

  struct Explanation {
    std::string text, json;
  };
  /// Of the plan as a whole; or of a setting ("tp"), a tensor or a node.
  Outcome<Explanation> explain(const std::string &subject);
  /// The table of `--compare`. Both are of one model.
  Outcome<std::string> compare(const PlannedModel &other) const;

private:
  struct State;
  explicit PlannedModel(std::unique_ptr<State> state);
  Failure explainWhole();

  std::unique_ptr<State> state;
};

} // namespace dtc::driver
