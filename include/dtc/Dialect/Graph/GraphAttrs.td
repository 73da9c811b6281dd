// All attributes of the dialect, whose parser and printer are made of them at once.
#ifndef DTC_DIALECT_GRAPH_GRAPHATTRS_TD
#define DTC_DIALECT_GRAPH_GRAPHATTRS_TD

include "dtc/Dialect/Graph/AdapterAttr.td"
include "dtc/Dialect/Graph/GraphOps.td"

#endif // DTC_DIALECT_GRAPH_GRAPHATTRS_TD
