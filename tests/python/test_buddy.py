"""The buddy allocator against a slow, obvious one, by Hypothesis; policies' names and costs."""

from hypothesis import given
from hypothesis import strategies as st

from pagelens import _core
from pagelens.frames import policies

FRAMES = 4096
ORDERS = 11


class SlowBuddy:
    """Lists of free blocks, head first; everything by search."""

    def __init__(self) -> None:
        self.free_lists: list[list[int]] = [[] for _ in range(ORDERS)]
        self.free_lists[-1] = list(range(0, FRAMES, 1024))

    def alloc(self, order: int) -> int | None:
        for larger in range(order, ORDERS):
            if self.free_lists[larger]:
                frame = self.free_lists[larger].pop(0)
                for half in range(larger - 1, order - 1, -1):
                    self.free_lists[half].insert(0, frame + (1 << half))
                return frame
        return None

    def free(self, frame: int, order: int) -> None:
        while order < ORDERS - 1 and frame ^ (1 << order) in self.free_lists[order]:
            self.free_lists[order].remove(frame ^ (1 << order))
            frame &= ~(1 << order)
            order += 1
        self.free_lists[order].insert(0, frame)

    def sort(self) -> None:
        for blocks in self.free_lists:
            blocks.sort()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), st.integers(0, ORDERS - 1)),
        st.tuples(st.just("free"), st.integers(0, 10**6)),
        st.tuples(st.just("sort"), st.just(0)),
    ),
    max_size=150,
)


@given(STEPS)
def test_the_buddy_allocator_equals_the_slow_one(steps: list[tuple[str, int]]) -> None:
    fast, slow = _core.Buddy(FRAMES, 1), SlowBuddy()
    held: list[tuple[int, int]] = []
    for step, argument in steps:
        if step == "alloc":
            frame = fast.alloc(argument)
            assert frame == slow.alloc(argument)
            if frame is not None:
                held.append((frame, argument))
        elif step == "sort":
            fast.sort()
            slow.sort()
        elif held:
            frame, order = held.pop(argument % len(held))
            fast.free(frame, order)
            slow.free(frame, order)
        for order in range(ORDERS):
            assert fast.free_list(order) == slow.free_lists[order]
    for frame, order in held:
        fast.free(frame, order)
    assert fast.free_frames == FRAMES
    assert sorted(fast.free_list(ORDERS - 1)) == list(range(0, FRAMES, 1024))


def test_every_policy_states_what_it_costs() -> None:
    assert list(policies) == ["aged", "aged+zonesort", "random", "contiguous", "2m", "1g", "coloured"]
    for policy in policies.values():
        assert policy.title
        paid = any((policy.costs.root, policy.costs.memory, policy.costs.code))
        assert paid or not policy.remedy
