// What dtc takes its memory from. Programs with sanitizers have these sanitizers' own.
#pragma once

#ifdef DTC_MIMALLOC
/// Has mimalloc end dtc with a line where there is no memory.
void setUpAllocator();
#else
inline void setUpAllocator() {}
#endif
