#ifndef DTC_INTERFACES_SHARDINGRULEINTERFACE_TD
#define DTC_INTERFACES_SHARDINGRULEINTERFACE_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    What an op says about parallelism: its sharding rule (see
    dtc/Sharding/Rule.h), and how it is rebuilt on shards.
  }];
  let methods = [
    InterfaceMethod<[{
      Writes down the op's sharding rule for its present operand and result
      shapes. `units` says what becomes of dimensions of size 1.
    }], "::dtc::sharding::ShardingRule", "buildShardingRule",
      (ins "::dtc::UnitFactors":$units)>,
    InterfaceMethod<[{
      Builds the op on the shards `operands` and returns its results, which
      have the types `resultTypes`. Most ops are cloned with these types
      (cloneLocal). Ops whose attributes hold sizes or whose operands hold global
      indices are not. No rounds factor is split here: such ops were decomposed.
    }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "buildLocal",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::TypeRange":$resultTypes,
           "const ::dtc::LocalContext &":$context)>,
  ];
  let extraSharedClassDeclaration = [{
    /// The op's sharding rule.
    ::dtc::sharding::ShardingRule getShardingRule() {
      return $_op.buildShardingRule(::dtc::UnitFactors::Omitted);
    }
    /// The same with a factor for each dimension of size 1, by which a batch of one is followed.
    ::dtc::sharding::ShardingRule getRuleWithUnits() {
      return $_op.buildShardingRule(::dtc::UnitFactors::Kept);
    }
  }];
}

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    An op that stands for a small graph of simpler ops, e.g. softmax. The
    partitioner decomposes it when a rounds factor is split (each simpler op
    then has an ordinary rule), the CPU target when it forms kernels, the
    interpreter always: the decomposition is the op's definition.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the simpler ops before the builder's insertion point and returns
      one value per result. Leaves the op itself in place.
    }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

#endif // DTC_INTERFACES_SHARDINGRULEINTERFACE_TD
