#include "core/machine/dram_map.hpp"

#include <bit>
#include <initializer_list>
#include <stdexcept>

#include "core/address/linear.hpp"

namespace pagelens {
namespace {

constexpr unsigned most_address_bits = 52;  // of x86-64

struct Field {
    const char* name;
    const Masks* masks;
};

// All masks in a row, each with its name.
struct Named {
    std::vector<std::uint64_t> masks;
    std::vector<std::string> names;
};

Named named(const DramFields& fields) {
    Named all;
    for (const Field& field : {Field{"column", &fields.column}, Field{"bank", &fields.bank},
                               Field{"bank_group", &fields.bank_group}, Field{"rank", &fields.rank},
                               Field{"channel", &fields.channel}, Field{"row", &fields.row}}) {
        for (std::size_t bit = 0; bit < field.masks->size(); ++bit) {
            all.masks.push_back((*field.masks)[bit]);
            all.names.push_back(std::string(field.name) + "." + std::to_string(bit));
        }
    }
    return all;
}

// Throws unless the masks map the address bits from offset_bits on one to one.
void check_one_to_one(const DramFields& fields) {
    const Named all = named(fields);
    const std::uint64_t below = (std::uint64_t{1} << fields.offset_bits) - 1;
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < all.masks.size(); ++i) {
        if ((all.masks[i] & below) != 0) {
            throw std::invalid_argument(all.names[i] + ": has a bit below bit " +
                                        std::to_string(fields.offset_bits) + ", inside a column");
        }
        used |= all.masks[i];
    }
    if (const auto found = first_dependence(all.masks)) {
        std::string others;
        for (const std::size_t i : found->of)
            others += (others.empty() ? "" : " ^ ") + all.names[i];
        throw std::invalid_argument(all.names[found->mask] + ": " +
                                    (others.empty() ? "is empty" : "is " + others) +
                                    ", so two addresses would share a place");
    }
    // n independent masks are one to one on the bits that they use if these bits are n.
    const unsigned end = fields.offset_bits + static_cast<unsigned>(all.masks.size());
    const std::uint64_t whole = (std::uint64_t{1} << end) - 1 - below;
    if (used == whole) return;
    const std::uint64_t missing = whole & ~used;
    const auto bit = std::to_string(std::countr_zero(missing != 0 ? missing : used & ~whole));
    throw std::invalid_argument(
        "row: " + std::to_string(all.masks.size()) + " masks place the address bits " +
        std::to_string(fields.offset_bits) + " to " + std::to_string(end - 1) + ", but bit " + bit +
        (missing != 0 ? " is in none of them" : " is used too"));
}

// Returns the hash whose value is a place: its bank in the lowest bits, its row above.
HashForm form_of(const DramFields& fields) {
    Masks banks;
    for (const Masks* masks : {&fields.bank, &fields.bank_group, &fields.rank, &fields.channel}) {
        banks.insert(banks.end(), masks->begin(), masks->end());
    }
    if (banks.size() > 16 || banks.size() + fields.row.size() > 31) {
        throw std::invalid_argument(
            "row: more than 16 bits of banks, or more than 31 of banks and rows");
    }
    const auto count = std::uint32_t{1} << banks.size();
    return HashForm{{{std::move(banks), {}}}, count, fields.row};
}

DramFields checked(const DramFields& fields) {
    std::size_t masks = 0;
    for (const Masks* field : {&fields.column, &fields.bank, &fields.bank_group, &fields.rank,
                               &fields.channel, &fields.row}) {
        masks += field->size();
    }
    if (fields.offset_bits + masks > most_address_bits) {
        throw std::invalid_argument("row: more than 52 address bits in all");
    }
    if (fields.interleave == 0 || fields.interleave > 64) {
        throw std::invalid_argument("interleave: from 1 to 64 groups of channels");
    }
    if (fields.interleave_bit < 6 || fields.interleave_bit > fields.offset_bits + masks) {
        throw std::invalid_argument("interleave_bit: from 6 (a line) to what the masks place");
    }
    check_one_to_one(fields);
    return fields;
}

unsigned count(const Masks& masks) { return static_cast<unsigned>(masks.size()); }

}  // namespace

DramMap::DramMap(const DramFields& fields)
    : group_shift_(count(fields.bank)),
      rank_shift_(group_shift_ + count(fields.bank_group)),
      channel_shift_(rank_shift_ + count(fields.rank)),
      bank_bits_(channel_shift_ + count(fields.channel)),
      interleave_(fields.interleave),
      interleave_bit_(fields.interleave_bit),
      bytes_(std::uint64_t{fields.interleave}
             << (fields.offset_bits + count(fields.column) + bank_bits_ + count(fields.row))),
      hash_(form_of(checked(fields))) {}

}  // namespace pagelens
