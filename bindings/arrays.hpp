// Arrays in and out: no copies.
#pragma once

#include <nanobind/ndarray.h>

#include <span>
#include <utility>
#include <vector>

namespace pagelens {

template <class T>
using Input =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Output = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

template <class T>
std::span<const T> span_of(const Input<T>& array) {
    return {array.data(), array.size()};
}

// What a vector holds, as an array that lives as long as anybody looks at it.
template <class T>
Output<T> moved(std::vector<T> values) {
    auto* const kept = new std::vector<T>(std::move(values));
    const nanobind::capsule owner(kept,
                                  [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Output<T>(kept->data(), {kept->size()}, owner);
}

}  // namespace pagelens
