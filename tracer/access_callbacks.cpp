#include "tracer/access_callbacks.hpp"

#include <utility>

namespace pagelens {
namespace {

template <bool store, unsigned size>
void on_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    access<store>(tracer->vcpu(index), address, size, info, unpack(data));
}

// Returns true if the tracer should look at the thread. It is asked at blocks, not at records,
// because a loop may run for ever without a record.
[[gnu::always_inline]] inline bool count_instructions(Vcpu& vcpu, std::uint64_t instructions) {
    vcpu.left -= static_cast<std::int64_t>(instructions);
    return vcpu.left < 0;
}

// Apart from the callback, which saves no registers as long as it calls nothing but at its end.
template <bool store, unsigned size>
[[gnu::noinline]] void look_and_access(Vcpu& vcpu, qemu_plugin_meminfo_t info,
                                       std::uint64_t address, AccessPlace place) {
    tracer->look(vcpu, place.block());
    access<store>(vcpu, address, size, info, place);
}

template <bool store, unsigned size>
void on_counting_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                        void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    const AccessPlace place = unpack(data);
    vcpu.strip.advance(place.later() + 1);
    if (count_instructions(vcpu, place.instructions())) [[unlikely]]
        return look_and_access<store, size>(vcpu, info, address, place);
    access<store>(vcpu, address, size, info, place);
}

template <bool counts, bool store>
qemu_plugin_vcpu_mem_cb_t callback_of_size(unsigned size) {
    switch (size) {
        case 1:
            return counts ? on_counting_access<store, 1> : on_access<store, 1>;
        case 4:
            return counts ? on_counting_access<store, 4> : on_access<store, 4>;
        default:
            return counts ? on_counting_access<store, 8> : on_access<store, 8>;
    }
}

template <unsigned size, bool counted>
void on_half_read(unsigned index, qemu_plugin_meminfo_t, std::uint64_t address, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (std::exchange(vcpu.unread, address + 8) == address) {
        vcpu.unread = 0;
        return;
    }
    if (!counted) vcpu.strip.advance(1);
    access<false>(vcpu, address, size, load_of(size), unpack(data));
}

template <bool counts>
qemu_plugin_vcpu_mem_cb_t callback(const Instruction& instruction) {
    return instruction.store ? callback_of_size<counts, true>(instruction.size)
                             : callback_of_size<counts, false>(instruction.size);
}

}  // namespace

qemu_plugin_vcpu_mem_cb_t certain_access_callback(const Instruction& instruction, bool counts) {
    return counts ? callback<true>(instruction) : callback<false>(instruction);
}

qemu_plugin_vcpu_mem_cb_t half_read_callback(const Instruction& instruction, bool counted) {
    if (counted) return instruction.size == 4 ? on_half_read<4, true> : on_half_read<8, true>;
    return instruction.size == 4 ? on_half_read<4, false> : on_half_read<8, false>;
}

void on_uncertain_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                         void* data) {
    uncertain_access(tracer->vcpu(index), address, info, unpack(data));
}

void on_stream_store(unsigned index, qemu_plugin_meminfo_t, std::uint64_t address, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    vcpu.strip.advance(1);
    tracer->stream_store(vcpu, address, unpack(data));
}

void on_string(unsigned index, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    const std::uint64_t since_look = vcpu.string.since_look;
    vcpu.string = {.instruction = data, .executed = vcpu.instructions(), .since_look = since_look};
}

void on_string_alone(unsigned index, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (vcpu.string.instruction == data && vcpu.string.executed == vcpu.instructions()) [[likely]]
        return;
    if (count_instructions(vcpu, 1)) [[unlikely]]
        tracer->look(vcpu);
    on_string(index, data);
}

void on_string_access(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address,
                      void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    const std::uint64_t before = vcpu.strip.accesses();
    uncertain_access(vcpu, address, info, unpack(data));
    tracer->string_access(vcpu, address, is_store(info), size_of(info),
                          vcpu.strip.accesses() - before);
}

void on_block(unsigned index, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    const AccessPlace place = unpack(data);
    if (count_instructions(vcpu, place.instructions())) [[unlikely]]
        tracer->look(vcpu, place.block());
}

}  // namespace pagelens
