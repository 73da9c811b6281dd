#ifndef DTC_DIALECT_GRAPH_GRAPHOPS_TD
#define DTC_DIALECT_GRAPH_GRAPHOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"
include "dtc/Dialect/Graph/ExpertOps.td"
include "dtc/Dialect/Graph/IndexOps.td"
include "dtc/Dialect/Graph/LayerOps.td"
include "dtc/Dialect/Graph/ModuleOps.td"
include "dtc/Dialect/Graph/OptimizerOps.td"
include "dtc/Dialect/Graph/ReduceOps.td"
include "dtc/Dialect/Graph/ShapeOps.td"
include "dtc/Dialect/Graph/VisionOps.td"

#endif // DTC_DIALECT_GRAPH_GRAPHOPS_TD
