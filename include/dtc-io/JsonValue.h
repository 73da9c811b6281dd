// Values of JSON that somebody else wrote, as they stand there.
#pragma once

#include <nlohmann/json.hpp>

#include <limits>
#include <type_traits>
#include <vector>

namespace dtc::io {

/// nlohmann cuts a fraction to an integer, wraps what is too large, and reads 1e30 as anything.
template <typename T, typename Json> void checkInteger(const Json &value) {
  const bool isInside =
      value.is_number_unsigned()
          ? value.template get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max())
          : value.is_number_integer() && std::is_signed_v<T> &&
                value.template get<int64_t>() >=
                    static_cast<int64_t>(std::numeric_limits<T>::min());
  if (!isInside)
    throw Json::type_error::create(302, "expected another integer", &value);
}

/// As Json::get, and integers, also those of a list, must be ones that T can hold.
template <typename T> struct JsonValue {
  template <typename Json> static T of(const Json &value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      checkInteger<T>(value);
    return value.template get<T>();
  }
};
template <typename T> struct JsonValue<std::vector<T>> {
  template <typename Json> static std::vector<T> of(const Json &list) {
    if (!list.is_array())
      throw Json::type_error::create(302, "expected a list", &list);
    std::vector<T> values;
    for (const Json &value : list)
      values.push_back(JsonValue<T>::of(value));
    return values;
  }
};

template <typename T, typename Json> T jsonValue(const Json &value) {
  return JsonValue<T>::of(value);
}

} // namespace dtc::io
