#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "probes/loops.hpp"

using namespace pagelens::probes;

namespace {

constexpr double untouched = -7;
constexpr std::size_t margin = 16;

// The loops' answer for arrays that begin so many doubles behind a line, with what lies around it.
class Case {
  public:
    Case(std::size_t n, std::size_t to, std::size_t x, std::size_t y)
        : n_(n), to_at_(to + margin), to_(n + 3 * margin, untouched), x_(n + 8), y_(n + 8) {
        for (std::size_t i = 0; i < n + 8; ++i) {
            x_[i] = 0.1 * static_cast<double>(i) + 1;
            y_[i] = 0.3 * static_cast<double>(i) - 2;
        }
        from_x_ = x_.data() + x;
        from_y_ = y_.data() + y;
    }

    template <class Run, class Expected>
    bool right(Run run, Expected expected) {
        std::fill(to_.begin(), to_.end(), untouched);
        run(to_.data() + to_at_, from_x_, from_y_, n_);
        for (std::size_t i = 0; i < to_.size(); ++i) {
            const bool inside = i >= to_at_ && i < to_at_ + n_;
            const double due =
                inside ? expected(from_x_[i - to_at_], from_y_[i - to_at_]) : untouched;
            if (to_[i] != due) return false;
        }
        return true;
    }

  private:
    std::size_t n_, to_at_;
    std::vector<double> to_, x_, y_;
    const double *from_x_, *from_y_;
};

bool all_right(const Loops& loop, Case one) {
    const double s = 3;
    using From = const double*;
    return one.right([&](double* to, From x, From, std::size_t n) { loop.copy(to, x, n); },
                     [](double x, double) { return x; }) &&
           one.right([&](double* to, From x, From, std::size_t n) { loop.scale(to, x, s, n); },
                     [&](double x, double) { return s * x; }) &&
           one.right([&](double* to, From x, From y, std::size_t n) { loop.add(to, x, y, n); },
                     [](double x, double y) { return x + y; }) &&
           one.right([&](double* to, From x, From y, std::size_t n) { loop.triad(to, x, y, s, n); },
                     [&](double x, double y) {
                         const double product = s * y;
                         return x + product;
                     });
}

}  // namespace

TEST_CASE("loops give what plain loops give, bit by bit, at every length and alignment") {
    for (const Isa isa : isas()) {
        for (const bool nontemporal : {false, true}) {
            for (const bool spread : {false, true}) {
                const Loops& loop = loops(isa, nontemporal, spread);
                CAPTURE(static_cast<int>(isa));
                CAPTURE(nontemporal);
                CAPTURE(spread);
                for (std::size_t n = 0; n < 80; ++n) {
                    CAPTURE(n);
                    REQUIRE(all_right(loop, {n, n % 8, n % 3, n % 5}));
                }
                // Where each of four places has 1, 2 and 3 pages, and what is left over.
                for (const std::size_t n : {2047, 2048, 2055, 4096, 4100, 6143, 6144, 8191, 9001}) {
                    CAPTURE(n);
                    REQUIRE(all_right(loop, {n, n % 7, 0, n % 2}));
                }
            }
        }
    }
}

TEST_CASE("sums of whole numbers are exact") {
    for (const Isa isa : isas()) {
        const Loops& loop = loops(isa, false, false);
        std::vector<double> x;
        double right = 0;
        for (std::size_t n = 0; n < 300; ++n) {
            CAPTURE(n);
            REQUIRE(loop.sum(x.data(), n) == right);
            x.push_back(static_cast<double>(n * n + 1));
            right += x.back();
        }
    }
}
