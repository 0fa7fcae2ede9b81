#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "core/address/address_hash.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pagelens {

void register_address(nb::module_& m) {
    using Addresses = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    using Values = nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<1>>;

    nb::class_<HashForm::High>(
        m, "HashHigh", "A number of some bits that thresholds cut down to 2^keep_bits + 1 values.")
        .def(
            "__init__",
            [](HashForm::High* high, Masks masks, std::uint32_t threshold, unsigned keep_bits) {
                new (high) HashForm::High{std::move(masks), threshold, keep_bits};
            },
            "masks"_a, "threshold"_a, "keep_bits"_a);
    nb::class_<HashForm::Modulo>(m, "HashModulo", "address / 2^shift modulo divisor.")
        .def(
            "__init__",
            [](HashForm::Modulo* modulo, unsigned shift, std::uint32_t divisor) {
                new (modulo) HashForm::Modulo{shift, divisor};
            },
            "shift"_a, "divisor"_a);
    nb::class_<HashForm::Level>(m, "HashLevel", "low, plus high or modulo x 2^(bits of low).")
        .def(
            "__init__",
            [](HashForm::Level* level, Masks low, std::optional<HashForm::High> high,
               std::optional<HashForm::Modulo> modulo) {
                new (level) HashForm::Level{std::move(low), std::move(high), modulo};
            },
            "low"_a, "high"_a.none() = nb::none(), "modulo"_a.none() = nb::none());
    nb::class_<AddressHash>(
        m, "AddressHash",
        "From physical addresses to sets, slices, channels, banks or rows. Calling it "
        "with N addresses gives N values below `values`.")
        .def(
            "__init__",
            [](AddressHash* hash, std::vector<HashForm::Level> levels, std::uint32_t group_values,
               Masks group) {
                new (hash) AddressHash({std::move(levels), group_values, std::move(group)});
            },
            "levels"_a, "group_values"_a, "group"_a)
        .def(
            "__call__",
            [](const AddressHash& hash, Addresses addresses) {
                const std::size_t size = addresses.size();
                auto data = std::make_unique<std::uint32_t[]>(size);
                {
                    nb::gil_scoped_release release;
                    hash.apply({addresses.data(), size}, {data.get(), size});
                }
                return owned<Values>(std::move(data), {size});
            },
            "addresses"_a)
        .def_prop_ro("values", &AddressHash::values)
        .def_prop_ro("address_bits", &AddressHash::address_bits,
                     "All address bits that have a say.");
}

}  // namespace pagelens
