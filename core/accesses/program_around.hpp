// A program that is another one with more ops between its own.
#pragma once

#include <memory>
#include <utility>

#include "core/accesses/program.hpp"

namespace pagelens {

class ProgramAround : public Program {
  public:
    explicit ProgramAround(std::shared_ptr<const Program> inner) : inner_(std::move(inner)) {}

    [[nodiscard]] std::span<const VirtualPage> pages() const override { return inner_->pages(); }
    [[nodiscard]] unsigned spaces() const override { return inner_->spaces(); }
    [[nodiscard]] std::span<const VirtualRange> file_pages() const override {
        return inner_->file_pages();
    }
    [[nodiscard]] std::span<const VirtualRange> advised_pages() const override {
        return inner_->advised_pages();
    }
    [[nodiscard]] unsigned objects() const override { return inner_->objects(); }
    [[nodiscard]] unsigned phases() const override { return inner_->phases(); }
    [[nodiscard]] unsigned threads() const override { return inner_->threads(); }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return inner_->instructions();
    }

  protected:
    [[nodiscard]] const Program& inner() const { return *inner_; }

    // Gives the ops of the inner program. `before(op, batch)` puts others into the batch before it.
    template <class Before>
    class CursorAround final : public Cursor {
      public:
        CursorAround(const Program& inner, Before before)
            : before_(std::move(before)), cursor_(inner.open()) {}
        std::span<const Op> next() override {
            batch_.clear();
            for (const Op& op : cursor_->next()) {
                before_(op, batch_);
                batch_.push_back(op);
            }
            return batch_;
        }
        [[nodiscard]] float done() const override { return cursor_->done(); }

      private:
        Before before_;
        std::unique_ptr<Cursor> cursor_;
        std::vector<Op> batch_;
    };

  private:
    std::shared_ptr<const Program> inner_;
};

}  // namespace pagelens
