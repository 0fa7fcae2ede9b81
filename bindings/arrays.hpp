// Arrays in and out, without copies. Every array that leaves C++ is made here, so that what it
// holds lives as long as anybody looks at it.
#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
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

// The values of a vector as an array of that shape; Element may be another type of the same size.
template <class Array, class Element, class T>
Array moved_as(std::vector<T> values, std::initializer_list<std::size_t> shape) {
    static_assert(sizeof(Element) == sizeof(T));
    auto* const kept = new std::vector<T>(std::move(values));
    const nanobind::capsule owner(kept,
                                  [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Array(reinterpret_cast<Element*>(kept->data()), shape, owner);
}

template <class T>
Output<T> moved(std::vector<T> values) {
    const std::size_t size = values.size();
    return moved_as<Output<T>, T>(std::move(values), {size});
}

// Memory that C++ has filled, as an array of that shape.
template <class Array, class T>
Array owned(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
    T* const raw = data.release();
    const nanobind::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Array(raw, shape, owner);
}

}  // namespace pagelens
