#include "tracer/dynamorio/masked_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "tracer/dynamorio/operands.hpp"

namespace pagelens {

namespace {

std::string_view name_of(instr_t* instruction) {
    return decode_opcode_name(instr_get_opcode(instruction));
}

// The prefix of AVX-512. (Intel SDM volume 2, 2.7.)
class Evex {
  public:
    explicit Evex(instr_t* instruction) : at_(instr_get_raw_bits(instruction)) {
        while (*at_ != 0x62) ++at_;
    }
    unsigned map() const { return at_[1] & 7u; }
    unsigned opcode() const { return at_[4]; }
    bool wide() const { return (at_[2] & 0x80) != 0; }
    bool repeats_element() const { return (at_[3] & 0x10) != 0; }
    unsigned vector_bytes() const { return 16u << (at_[3] >> 5 & 3); }
    unsigned prefix() const { return at_[2] & 3u; }  // 0: none, 1: 66, 2: F3, 3: F2
    // DynamoRIO has no names for these instructions.
    bool is_fp16() const { return map() > 3 || (map() == 3 && prefix() != 1); }

  private:
    const byte* at_;
};

unsigned fp16_element(const Evex& evex) {
    if (evex.wide()) return 8;
    const unsigned opcode = evex.opcode(), prefix = evex.prefix();
    if (evex.map() == 6) return (opcode & 0x7e) == 0x56 ? 4 : 2;  // complex numbers
    const bool from_floats =
        evex.map() == 5 &&
        (opcode == 0x1d || (opcode == 0x5b && prefix == 0) || (opcode == 0x7a && prefix == 3));
    return from_floats ? 4 : 2;
}

// Bytes in memory of an element that one bit of the mask stands for. The name ends with them, or
// EVEX.W states them.
unsigned element_bytes(instr_t* instruction, const Evex& evex) {
    if (evex.is_fp16()) return fp16_element(evex);
    switch (instr_get_opcode(instruction)) {
        case OP_vmovdqu8:
            return 1;
        case OP_vmovdqu16:
        case OP_vcvtph2ps:
        case OP_vcvtps2ph:
            return 2;
        default:
            break;
    }
    const std::string_view name = name_of(instruction);
    const bool extends = name.starts_with("vpmovsx") || name.starts_with("vpmovzx");
    switch (extends ? name[7] : name.back()) {
        case 'b':
            return 1;
        case 'w':
            return 2;
        default:
            return evex.wide() ? 8 : 4;
    }
}

bool is_compressed(std::string_view name) {
    return name.find("compress") != name.npos || name.find("expand") != name.npos;
}

}  // namespace

// A test of each instruction on a Xeon of the fourth generation found those that access all: with
// nothing in the mask, they fault on a page that may not be accessed. (Intel SDM volume 2, 2.8,
// says that types of exceptions whose names end with NF have no fault suppression.)
bool mask_hides_elements(instr_t* instruction) {
    static constexpr std::array<std::string_view, 21> whole{
        "valign",    "vcvtne2", "vdbpsad", "vextract", "vgf2p8affine", "vinsert",      "vmovddup",
        "vmovshdup", "vmovsl",  "vpack",   "vpalign",  "vpconflict",   "vperm",        "vpmaddub",
        "vpmaddwd",  "vpshufb", "vpshufd", "vpshufh",  "vpshufl",      "vpmultishift", "vshuf"};
    static constexpr std::array<std::string_view, 3> shifts{"vpsll", "vpsra", "vpsrl"};
    if (Evex(instruction).is_fp16()) return true;
    const std::string_view name = name_of(instruction);
    const auto begins = [name](std::string_view start) { return name.starts_with(start); };
    if (name == "vpshufbitqmb") return true;
    if (std::any_of(whole.begin(), whole.end(), begins) || name.find("unpck") != name.npos)
        return false;
    // Shifts of all elements by a number in memory.
    const bool shifts_all = name.size() == 6 && std::any_of(shifts.begin(), shifts.end(), begins);
    return !shifts_all || opnd_is_immed(instr_get_src(instruction, 1));
}

void masked_elements(instr_t* instruction, const dr_mcontext_t& registers, const Emit& emit) {
    const auto memory = memory_of(instruction);
    const auto mask = mask_register(instruction);
    if (!memory || !mask) return;
    const Evex evex(instruction);
    const std::string_view name = name_of(instruction);
    const unsigned whole = bytes_of(memory->operand);
    const unsigned bytes = std::min(element_bytes(instruction, evex), whole);
    const unsigned elements = whole / bytes;
    const std::uint64_t address = address_of(memory->operand, registers);
    const auto first = [](unsigned count) {
        return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    };
    std::uint64_t bits = registers.opmask[*mask - DR_REG_START_OPMASK];
    if (evex.repeats_element() || name.find("broadcast") != name.npos) {
        const bool widens = bytes == 4 && (name.ends_with("2pd") || name.ends_with("qq"));
        bits &= first(evex.vector_bytes() / (widens ? 8 : bytes));
        for (unsigned shift = 32; shift >= elements; shift /= 2) bits |= bits >> shift;
    }
    bits &= first(elements);
    if (is_compressed(name)) bits = first(static_cast<unsigned>(std::popcount(bits)));
    for (; bits != 0; bits &= bits - 1) {
        const auto i = static_cast<std::uint64_t>(std::countr_zero(bits));
        emit({address + i * bytes, memory->store, bytes});
    }
}

}  // namespace pagelens
