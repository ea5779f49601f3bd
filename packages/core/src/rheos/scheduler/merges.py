"""Running stages that split and merge: tee, concurrently, round_robin."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

from rheos.scheduler.running import Answer, Item, RunningNode, Signal, State

__all__ = ["Concurrently", "RoundRobin", "Tee", "TeeBranch"]

__tracebackhide__ = True


class Tee(RunningNode):
    """Holds what its branches have not read; only the first branch takes from the source."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        node: Any = self.node
        self._max_lag: int = node.max_lag
        self._unread: list[deque[Item]] = [deque() for _ in range(node.count)]
        self._is_ended = False

    def poll(self) -> Answer:
        """Take the next item for every branch, unless one of them is too far behind."""
        if any(len(unread) > self._max_lag for unread in self._unread[1:]):
            return Signal.PENDING
        answer = self.inputs[0].poll()
        if isinstance(answer, Item):
            self.items += 1
            self.engine.moves += 1
            for unread in self._unread[1:]:
                unread.append(Item(answer.value, answer.sources, answer.born_at))
        elif answer is Signal.END and not self._is_ended:
            self._is_ended = True
            self.engine.moves += 1
        return answer

    def read(self, branch: int) -> Answer:
        """Give what a branch that does not drive has not read."""
        unread = self._unread[branch]
        if unread:
            self.engine.moves += 1
            return unread.popleft()
        return Signal.END if self._is_ended else Signal.PENDING

    def waiting(self) -> str:
        """Say which branch is too far behind."""
        for branch, unread in enumerate(self._unread):
            if len(unread) > self._max_lag:
                return f"branch {branch} has {len(unread)} unread items, max_lag={self._max_lag}: nobody reads it"
        return ""

    def state_dict(self) -> State:
        """Add what is unread."""
        unread = [[(item.value, item.sources) for item in branch] for branch in self._unread]
        return super().state_dict() | {"unread": unread, "is_ended": self._is_ended}

    def load_state_dict(self, state: State) -> None:
        """Take what was unread, too."""
        super().load_state_dict(state)
        self._unread = [deque(Item(value, tuple(sources)) for value, sources in branch) for branch in state["unread"]]
        self._is_ended = state["is_ended"]


class TeeBranch(RunningNode):
    """One reader of a tee."""

    def poll(self) -> Answer:
        """Drive the tee, or read what it holds for this branch."""
        tee: Any = self.inputs[0]
        node: Any = self.node
        answer: Answer = tee.poll() if node.index == 0 else tee.read(node.index)
        if isinstance(answer, Item):
            self.items += 1
        return answer


class Concurrently(RunningNode):
    """Asks its children in turn, beginning behind the one that gave something last."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._turn = 0
        self._is_ended = [False] * len(self.inputs)

    def poll(self) -> Answer:
        """Give the item of the next child that has one; the end comes when all have ended."""
        answers = []
        for step in range(len(self.inputs)):
            child = (self._turn + step) % len(self.inputs)
            if self._is_ended[child]:
                continue
            answer = self.inputs[child].poll()
            if isinstance(answer, Item) or answer is Signal.DRAINED:
                self._turn = (child + 1) % len(self.inputs)
                self.items += answer is not Signal.DRAINED
                return answer
            if answer is Signal.END:
                self._is_ended[child] = True
                self.engine.moves += 1
            else:
                answers.append(answer)
        if not answers:
            return Signal.END
        return Signal.PENDING if Signal.PENDING in answers else Signal.IDLE

    def state_dict(self) -> State:
        """Add whose turn it is, and who has ended."""
        return super().state_dict() | {"turn": self._turn, "is_ended": list(self._is_ended)}

    def load_state_dict(self, state: State) -> None:
        """Take whose turn it is, too."""
        super().load_state_dict(state)
        self._turn = state["turn"]
        self._is_ended = list(state["is_ended"])


class RoundRobin(RunningNode):
    """Gives each child its turns of every cycle; what remains of a fraction is carried to the next cycle."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        node: Any = self.node
        self._weights: tuple[Fraction, ...] = node.weights
        self._credit = [Fraction(0)] * len(self.inputs)
        self._child = 0
        self._turns = self._earn(0)
        self._is_ended = False

    def _earn(self, child: int) -> int:
        """Add a cycle's weight to a child's credit, and take its whole turns out."""
        self._credit[child] += self._weights[child]
        turns = int(self._credit[child])
        self._credit[child] -= turns
        return turns

    def _advance(self) -> None:
        """Go on to the next child that has a turn."""
        while True:
            self._child = (self._child + 1) % len(self.inputs)
            self._turns = self._earn(self._child)
            if self._turns:
                return

    def poll(self) -> Answer:
        """Give the item of the child whose turn it is; a child that is not ready loses its turn, without debt."""
        if self._is_ended:
            return Signal.END
        if not self._turns:
            self._advance()
        tried: set[int] = set()
        while len(tried) < len(self.inputs):
            if self._child not in tried:
                answer = self.inputs[self._child].poll()
                if isinstance(answer, Item) or answer is Signal.DRAINED:
                    self._turns -= 1
                    self.items += answer is not Signal.DRAINED
                    return answer
                if answer is Signal.END:
                    self._is_ended = True
                    return answer
                if answer is Signal.PENDING:
                    return answer
                tried.add(self._child)
            self._advance()
        return Signal.IDLE

    def state_dict(self) -> State:
        """Add the credits, as numerator and denominator, and whose turn it is."""
        return super().state_dict() | {
            "credit": [(part.numerator, part.denominator) for part in self._credit],
            "child": self._child,
            "turns": self._turns,
            "is_ended": self._is_ended,
        }

    def load_state_dict(self, state: State) -> None:
        """Take the credits, too."""
        super().load_state_dict(state)
        self._credit = [Fraction(numerator, denominator) for numerator, denominator in state["credit"]]
        self._child = state["child"]
        self._turns = state["turns"]
        self._is_ended = state["is_ended"]
