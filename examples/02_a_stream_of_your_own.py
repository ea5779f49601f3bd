"""A stream of your own: random search on CartPole as a flow over two plain classes, without any framework.

Each explorer tries its own random direction, forwards and backwards; a barrier joins the trials of a round; the
searcher moves the policy along those that paid; every explorer goes on from there.

Source: augmented random search, Mania et al. 2018, arXiv:1803.07055, version V1.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import numpy.typing as npt

import rheos
from rheos.seeds import generator_for

Weights = npt.NDArray[np.float64]
SHAPE = (4, 2)  # CartPole: four observations, two actions


@dataclass(frozen=True)
class Trial:
    """What one direction brought, added to the policy and taken from it."""

    direction: Weights
    forwards: float
    backwards: float


@dataclass(frozen=True)
class Round:
    """The policy after a round, and the mean return of its trials."""

    policy: Weights
    mean_return: float


class Explorer:
    """Plays episodes with the policy it was given, changed a little."""

    def __init__(self, index: int, *, noise: float = 0.3) -> None:
        self.env = gymnasium.make("CartPole-v1")
        self.generator = generator_for(0, "explorer", index)
        self.noise = noise
        self.policy = np.zeros(SHAPE)

    def load(self, policy: Weights) -> None:
        """Go on from this policy."""
        self.policy = policy

    def explore(self) -> Trial:
        """Try one random direction both ways."""
        direction = self.generator.standard_normal(SHAPE)
        step = self.noise * direction
        return Trial(direction, self.episode(self.policy + step), self.episode(self.policy - step))

    def episode(self, policy: Weights) -> float:
        """Return the return of one episode."""
        observation, _ = self.env.reset(seed=int(self.generator.integers(2**31)))
        total, is_over = 0.0, False
        while not is_over:
            observation, reward, terminated, truncated, _ = self.env.step(int(np.argmax(observation @ policy)))
            total += float(reward)
            is_over = terminated or truncated
        return total

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class Searcher:
    """Holds the policy and moves it."""

    def __init__(self, *, step: float = 0.3) -> None:
        self.step = step
        self.policy = np.zeros(SHAPE)

    def update(self, trials: tuple[Trial, ...]) -> Round:
        """Move along each direction by what it gained; the returns' spread sets the scale."""
        returns = [value for trial in trials for value in (trial.forwards, trial.backwards)]
        gains = sum(((trial.forwards - trial.backwards) * trial.direction for trial in trials), np.zeros(SHAPE))
        self.policy = self.policy + self.step * gains / (len(trials) * (np.std(returns) + 1e-8))
        return Round(self.policy, float(np.mean(returns)))


def random_search(explorers: rheos.ActorGroup[Explorer], searcher: rheos.Actor[Searcher]) -> rheos.Stream[Round]:
    """Augmented random search, the whole of it."""
    return (
        rheos.from_actors(explorers, Explorer.explore)
        .gather_sync()
        .ask(searcher, Searcher.update)
        .tell(explorers, Explorer.load, message=lambda done: done.policy, route=rheos.Route.ALL)
    )


def main(max_rounds: int = 100) -> None:
    """Search until the mean return of a round reaches 475."""
    flow = random_search(rheos.ActorGroup("explorer", 8, Explorer), rheos.Actor("searcher", Searcher))
    print(flow.explain())
    with rheos.run(flow) as rounds:
        for number, done in zip(range(1, max_rounds + 1), rounds, strict=False):
            print(f"round {number:3d}: mean return {done.mean_return:5.1f}")
            if done.mean_return >= 475:
                print("solved")
                return


if __name__ == "__main__":
    main()
