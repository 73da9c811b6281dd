// Structs of a program with one field changed.
#pragma once

#include "dtc-rt/Program_generated.h"

namespace dtc::replay::test {

namespace fbs = rt::fbs;

/// The fields of a call, which generated structs don't let change.
struct CallFields {
  uint32_t function, microbatch, slot, inbox, outbox;
  explicit CallFields(const fbs::Call &call)
      : function(call.function()), microbatch(call.microbatch()), slot(call.slot()),
        inbox(call.inbox()), outbox(call.outbox()) {}
};

/// Sets one field of a call.
inline void set(fbs::Call &call, uint32_t CallFields::*field, uint32_t value) {
  CallFields fields(call);
  fields.*field = value;
  call = fbs::Call(fields.function, fields.microbatch, fields.slot, fields.inbox, fields.outbox);
}

inline void setStride(fbs::Ref &ref, uint64_t stride) {
  ref = fbs::Ref(ref.offset(), stride, ref.scope(), ref.space());
}

inline void setOffset(fbs::Ref &ref, uint64_t offset) {
  ref = fbs::Ref(offset, ref.stride(), ref.scope(), ref.space());
}

inline void setRef(fbs::Value &value, const fbs::Ref &ref) {
  value = fbs::Value(ref, value.bytes());
}

} // namespace dtc::replay::test
