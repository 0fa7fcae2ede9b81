// Set sampling: sets of a set-indexed cache are independent, so simulating some sets alone is exact
// for those sets, and an unbiased sample of all.
//
// A frame's *colour* is its number's low bits, which every cache below the first indexes with. The
// sample takes some colours; of each colour some lines of a page, its own choice, and one slot in
// so many. L2 is run for all frames of the sampled colours (its sets are shared by them all), the
// memory-side cache for the sampled slots among them.
//
// Several colours, and not one, because frames come in runs: a loop that touches two arrays for the
// first time page by page gives one the even frames and the other the odd ones.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>

#include "core/address/units.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

class Sampling {
  public:
    static constexpr unsigned most_colour_bits = 4;

    // Everything.
    Sampling() { take(0, 0, ~0ull); }

    // Takes the frames that are = `chosen` (mod `modulus`), and of their pages the lines in
    // `lines`. Preconditions: powers of two; 2^colour_bits <= modulus.
    static Sampling residue(unsigned colour_bits, std::uint32_t modulus, std::uint32_t chosen,
                            std::uint64_t lines) {
        Sampling sampling(colour_bits, modulus);
        sampling.take(chosen & (sampling.colours() - 1), chosen >> colour_bits, lines);
        return sampling;
    }

    // Draws one slot in `modulus`, spread over half of the colours (a quarter if halved twice, and
    // so on), no two of them equal in all bits but the highest. Of each colour it draws
    // `line_count` lines: one of each group of 64 / line_count neighbours, of those in `among`,
    // which the program has. (A group without any has none.) Preconditions: powers of two;
    // 2^colour_bits <= modulus.
    static Sampling draw(std::uint64_t seed, std::uint32_t node, unsigned colour_bits,
                         std::uint32_t modulus, std::uint32_t line_count, unsigned halvings = 1,
                         std::uint64_t among = ~0ull) {
        assert(std::has_single_bit(line_count) && line_count <= lines_per_page);
        Random random(seed, node, 0, Stream::sampling);
        const unsigned free_bits = std::min(colour_bits, halvings);
        const std::uint32_t taken = 1u << (colour_bits - free_bits);
        Sampling sampling(colour_bits, modulus * taken);
        sampling.among_ = among;
        const std::uint32_t places = 1u << (sampling.group_bits_ - colour_bits);
        for (std::uint32_t low = 0; low < taken; ++low) {
            const std::uint32_t drawn = free_bits == 0 ? 0 : random.below(1u << free_bits);
            const std::uint32_t colour = low + taken * drawn;
            const std::uint32_t group = lines_per_page / line_count;
            std::uint64_t lines = 0;
            for (std::uint32_t first = 0; first < lines_per_page; first += group) {
                const std::uint64_t all = group == lines_per_page ? ~0ull : (1ull << group) - 1;
                std::uint64_t those = among & all << first;
                if (those == 0) continue;
                for (auto skip = random.below(static_cast<std::uint32_t>(std::popcount(those)));
                     skip > 0; --skip)
                    those &= those - 1;
                lines |= those & -those;
            }
            sampling.take(colour, random.below(places), lines);
        }
        return sampling;
    }

    [[nodiscard]] unsigned colour_bits() const { return colour_bits_; }
    [[nodiscard]] std::uint32_t colours() const { return 1u << colour_bits_; }
    // The slots repeat their pattern every so many.
    [[nodiscard]] std::uint32_t period() const { return 1u << group_bits_; }

    // The sampled colours, numbered from 0; `none` is the number of all others.
    static constexpr std::uint32_t none = ~0u;
    [[nodiscard]] std::uint32_t members() const { return members_; }
    [[nodiscard]] std::uint32_t member(std::uint32_t frame) const {
        return classes_[frame & (colours() - 1)].member;
    }
    [[nodiscard]] std::uint64_t member_lines(std::uint32_t member) const { return lines_[member]; }

    // The lines of a frame's page that are sampled; 0: it needs no simulation at all.
    [[nodiscard]] std::uint64_t lines(std::uint32_t frame) const {
        const std::uint32_t of = member(frame);
        return of == none ? 0 : lines_[of];
    }
    // Returns whether a frame's slot is in the sample.
    [[nodiscard]] bool covers(std::uint32_t frame) const {
        const Class& of = classes_[frame & (colours() - 1)];
        return of.member != none && (frame & (period() - 1)) >> colour_bits_ == of.place;
    }

    // Numbers covered frames (or slots, or sets) densely and in order, below dense_size(all).
    [[nodiscard]] std::uint32_t dense(std::uint32_t frame) const {
        return (frame >> group_bits_) * members_ + member(frame);
    }
    [[nodiscard]] std::uint32_t dense_size(std::uint32_t frames) const {
        return ((frames - 1) / period() + 1) * members_;
    }

    // Returns the sampled lines of the colour that has most, rounded up to a power of two.
    [[nodiscard]] unsigned most_lines() const {
        int most = 1;
        for (const std::uint64_t of : lines_) most = std::max(most, std::popcount(of));
        return std::bit_ceil(static_cast<unsigned>(most));
    }
    // Numbers the sampled lines of a frame's page from 0. Returns those of `lines` that are among
    // them, by these numbers.
    [[nodiscard]] std::uint64_t packed(std::uint32_t frame, std::uint64_t lines) const {
        std::uint64_t of_page = this->lines(frame), numbered = 0;
        if (of_page == ~0ull) return lines;
        for (std::uint64_t number = 1; of_page != 0; of_page &= of_page - 1, number <<= 1)
            if ((lines & of_page & -of_page) != 0) numbered |= number;
        return numbered;
    }

    // Returns how many lines of `frames` whole frames are sampled. Precondition: period() divides
    // frames.
    [[nodiscard]] std::uint32_t lines_in(std::uint32_t frames) const {
        std::uint32_t lines = 0;
        for (const std::uint64_t of : lines_)
            lines += static_cast<std::uint32_t>(std::popcount(of));
        return frames / period() * lines;
    }
    // The lines of a page that the program may have: the kernel clears all.
    [[nodiscard]] std::uint64_t among() const { return among_; }
    // One line in how many is simulated, of those that the program has.
    [[nodiscard]] double factor() const {
        return static_cast<double>(period()) * std::popcount(among_) / lines_in(period());
    }

  private:
    struct Class {  // of the frames of one colour
        std::uint32_t member = none;
        std::uint32_t place = 0;  // of its slot in each period, in units of all colours
    };

    Sampling(unsigned colour_bits, std::uint32_t period)
        : colour_bits_(colour_bits), group_bits_(static_cast<unsigned>(std::countr_zero(period))) {
        assert(std::has_single_bit(period) && colour_bits <= most_colour_bits &&
               colour_bits <= group_bits_);
    }
    void take(std::uint32_t colour, std::uint32_t place, std::uint64_t lines) {
        lines_[members_] = lines;
        classes_[colour] = {members_++, place};
    }

    unsigned colour_bits_ = 0;
    unsigned group_bits_ = 0;  // log2 of the period
    std::uint32_t members_ = 0;
    std::uint64_t among_ = ~0ull;
    std::array<Class, 1u << most_colour_bits> classes_{};
    std::array<std::uint64_t, 1u << most_colour_bits> lines_{};  // by member
};

}  // namespace pagelens
