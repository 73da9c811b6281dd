// Descriptors of the operations of a graph.
#include "Emulator/Cudnn/AttentionGraph.h"
#include "Emulator/Cudnn/Descriptors.h"

namespace dtc::emulator {

using namespace dtc::cuda;

void BackendDescriptor::finalizePointwise(GraphStep &step) const {
  const BackendDescriptor &kind = nested(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  step.kind = GraphStep::Kind::Pointwise;
  step.mode = kind.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  auto precision = kind.one<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
  if (step.mode == CUDNN_POINTWISE_GEN_INDEX)
    step.axis = kind.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  for (cudnnBackendAttributeName_t name :
       {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
    if (has(name))
      step.inputs.push_back(nested(name).tensor());
  step.output = nested(CUDNN_ATTR_OPERATION_POINTWISE_YDESC).tensor();
  require(step.inputs.size() == pointwiseMode(step.mode).inputs,
          "a pointwise operation has another number of inputs");
  bool isWhole = step.output.isInteger && step.mode != CUDNN_POINTWISE_GEN_INDEX;
  require(isWhole != (precision == CUDNN_DATA_FLOAT),
          "a pointwise operation computes in a type that doesn't fit its result");
}

void BackendDescriptor::finalizeStep() {
  auto made = std::make_shared<GraphStep>();
  switch (ownType) {
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    finalizePointwise(*made);
    break;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    made->kind = GraphStep::Kind::Product;
    require(nested(CUDNN_ATTR_OPERATION_MATMUL_DESC)
                    .one<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE) == CUDNN_DATA_FLOAT,
            "the emulator multiplies in fp32 alone");
    made->inputs = {nested(CUDNN_ATTR_OPERATION_MATMUL_ADESC).tensor(),
                    nested(CUDNN_ATTR_OPERATION_MATMUL_BDESC).tensor()};
    made->output = nested(CUDNN_ATTR_OPERATION_MATMUL_CDESC).tensor();
    break;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
    const BackendDescriptor &kind = nested(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    made->kind = GraphStep::Kind::Reduction;
    made->reduction = kind.one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    require(kind.one<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE) == CUDNN_DATA_FLOAT,
            "the emulator reduces in fp32 alone");
    made->inputs = {nested(CUDNN_ATTR_OPERATION_REDUCTION_XDESC).tensor()};
    made->output = nested(CUDNN_ATTR_OPERATION_REDUCTION_YDESC).tensor();
    break;
  }
  default:
    made->kind = GraphStep::Kind::Reshape;
    made->inputs = {nested(CUDNN_ATTR_OPERATION_RESHAPE_XDESC).tensor()};
    made->output = nested(CUDNN_ATTR_OPERATION_RESHAPE_YDESC).tensor();
  }
  step = std::move(made);
}

void BackendDescriptor::finalizeGraph() {
  (void)one<void *>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  auto graph = std::make_shared<AttentionGraph>();
  auto operations = all<void *>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (void *handle : operations) {
    const BackendDescriptor &each = handles<BackendDescriptor>().find(handle);
    each.requireFinal();
    if (each.operation) {
      require(operations.size() == 1, "the emulator takes one convolution a graph");
      operation = each.operation;
      return;
    }
    require(each.step != nullptr, "a graph is made of operations");
    graph->steps.push_back(*each.step);
  }
  graph->check();
  operation = std::move(graph);
}

} // namespace dtc::emulator
