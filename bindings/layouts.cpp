// The layouts of what Python hands to native programs and reads from them, taken from the headers
// that these programs are compiled with.
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "bindings/register.hpp"
#include "preload/plan_file.h"
#include "tracer/guest/state/words.h"
#include "tracer/guest/work_step.h"

namespace nb = nanobind;

namespace pagelens {
namespace {

// Collects the fields of a struct, in the form that numpy.dtype takes.
class Layout {
  public:
    template <class Field>
    Layout& add(const char* name, std::size_t offset) {
        names_.append(name);
        formats_.append(format<Field>());
        offsets_.append(offset);
        return *this;
    }
    [[nodiscard]] nb::dict of(std::size_t bytes) const {
        nb::dict made;
        made["names"] = names_;
        made["formats"] = formats_;
        made["offsets"] = offsets_;
        made["itemsize"] = bytes;
        return made;
    }

  private:
    template <class Field>
    static nb::object format() {
        if constexpr (std::is_same_v<std::remove_extent_t<Field>, char>) {
            return nb::str(("S" + std::to_string(sizeof(Field))).c_str());
        } else if constexpr (std::is_array_v<Field>) {
            return nb::make_tuple(format<std::remove_extent_t<Field>>(),
                                  nb::make_tuple(std::extent_v<Field>));
        } else if constexpr (std::is_same_v<Field, plan_part>) {
            return nb::make_tuple("<u8", nb::make_tuple(sizeof(plan_part) / sizeof(plan_part::at)));
        } else if constexpr (std::is_same_v<Field, double>) {
            return nb::str("<f8");
        } else if constexpr (std::is_same_v<Field, std::uint32_t>) {
            return nb::str("<u4");
        } else {
            static_assert(std::is_same_v<Field, std::uint64_t>);
            return nb::str("<u8");
        }
    }

    nb::list names_, formats_, offsets_;
};

#define FIELD(type, name) add<decltype(type::name)>(#name, offsetof(type, name))

nb::dict plan_layouts() {
    nb::dict of;
    of["header"] = Layout()
                       .FIELD(plan_header, magic)
                       .FIELD(plan_header, bytes)
                       .FIELD(plan_header, capacity)
                       .FIELD(plan_header, fast)
                       .FIELD(plan_header, slow)
                       .FIELD(plan_header, modules)
                       .FIELD(plan_header, places)
                       .FIELD(plan_header, steps)
                       .FIELD(plan_header, objects)
                       .FIELD(plan_header, variables)
                       .FIELD(plan_header, phases)
                       .FIELD(plan_header, shares)
                       .FIELD(plan_header, hooks)
                       .FIELD(plan_header, strings)
                       .of(sizeof(plan_header));
    of["module"] = Layout()
                       .FIELD(plan_module, path)
                       .FIELD(plan_module, first)
                       .FIELD(plan_module, places)
                       .of(sizeof(plan_module));
    of["place"] = Layout()
                      .FIELD(plan_place, low)
                      .FIELD(plan_place, high)
                      .FIELD(plan_place, number)
                      .of(sizeof(plan_place));
    of["step"] = Layout()
                     .FIELD(plan_step, place)
                     .FIELD(plan_step, first)
                     .FIELD(plan_step, count)
                     .FIELD(plan_step, object)
                     .of(sizeof(plan_step));
    of["object"] = Layout()
                       .FIELD(plan_object, name)
                       .FIELD(plan_object, share)
                       .FIELD(plan_object, row)
                       .FIELD(plan_object, rule)
                       .FIELD(plan_object, nodes)
                       .of(sizeof(plan_object));
    of["phase"] = Layout().FIELD(plan_phase, name).FIELD(plan_phase, bytes).of(sizeof(plan_phase));
    of["hook"] = Layout()
                     .FIELD(plan_hook, module)
                     .FIELD(plan_hook, address)
                     .FIELD(plan_hook, count)
                     .of(sizeof(plan_hook));
    of["variable"] = Layout()
                         .FIELD(plan_variable, module)
                         .FIELD(plan_variable, object)
                         .FIELD(plan_variable, address)
                         .FIELD(plan_variable, bytes)
                         .of(sizeof(plan_variable));
    return of;
}

}  // namespace

void register_layouts(nb::module_& m) {
    m.attr("PLAN_MAGIC") = nb::bytes(PLAN_MAGIC, sizeof plan_header::magic);
    m.def("plan_layouts", &plan_layouts,
          nb::sig("def plan_layouts() -> dict[str, dict[str, object]]"),
          "The structs of preload/plan_file.h by name, each in the form that numpy.dtype takes.");

    nb::enum_<work_kind>(m, "WorkKind", nb::is_arithmetic(),
                         "The kind of a step of work in a guest.")
        .value("take", WORK_TAKE)
        .value("drop", WORK_DROP)
        .value("leave", WORK_LEAVE)
        .value("read", WORK_READ)
        .value("look", WORK_LOOK)
        .value("pin", WORK_PIN);

    nb::enum_<word_kind>(m, "WordKind", nb::is_arithmetic(),
                         "What a word of a guest's picture of its allocator is about.")
        .value("free", WORD_FREE)
        .value("cached", WORD_CACHED)
        .value("pageblock", WORD_PAGEBLOCK)
        .value("movable", WORD_MOVABLE)
        .value("hole", WORD_HOLE);
    m.attr("WORD_MIDDLE_BIT") = static_cast<int>(WORD_MIDDLE_BIT);
    m.attr("WORD_TYPE_BIT") = static_cast<int>(WORD_TYPE_BIT);
    m.attr("WORD_ORDER_BIT") = static_cast<int>(WORD_ORDER_BIT);
    m.attr("WORD_KIND_BIT") = static_cast<int>(WORD_KIND_BIT);
}

}  // namespace pagelens
