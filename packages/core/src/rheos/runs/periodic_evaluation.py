"""PeriodicEvaluation: how well the newest weights play, measured while they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rheos.acting import Acting
from rheos.plugins import make_backend
from rheos.runs.checkpoints import refuse_non_finite
from rheos.runs.evaluation_result import EvaluationResult
from rheos.runs.playing import Player
from rheos.runs.policy import Policy

if TYPE_CHECKING:
    from pathlib import Path

    from rheos.configuration.run_config import RunConfig
    from rheos.plugins.registry import Registry
    from rheos.reports import Weights
    from rheos.runs.program import Program

__all__ = ["PeriodicEvaluation"]


class PeriodicEvaluation:
    """Plays the same episodes each time, in environments of its own, with the best actions of the newest weights.

    Their seeds derive from the seed of the run and the name `eval`: neither training nor `rheos eval` plays them. It
    takes no random number from training, so that a run learns the same with it and without.

    Args:
        config: of the run.
        program: what the run does.
        registry: where environment and backend are looked up.
        run_dir: the run's folder.
    """

    def __init__(self, config: RunConfig, program: Program, registry: Registry, run_dir: Path) -> None:
        self._config = config
        self._program = program
        self._registry = registry
        self._run_dir = run_dir
        self._acting: Acting | None = None
        self._evaluated: tuple[int, int] | None = None
        self._next = config.eval.every_steps

    def is_due(self, env_steps: int) -> bool:
        """Tell whether `eval.every_steps` env steps passed since the last evaluation."""
        return self._next is not None and env_steps >= self._next

    def is_due_at_the_end(self, weights: Weights, env_steps: int) -> bool:
        """Tell whether a run that ends with these weights has yet to evaluate them."""
        return self._next is not None and (env_steps, weights.version) != self._evaluated

    def evaluate(self, weights: Weights, env_steps: int, is_cancelled: Callable[[], bool]) -> EvaluationResult | None:
        """Play `eval.episodes` episodes; None where `is_cancelled` came true meanwhile.

        Raises:
            RheosError: if the weights are not finite.
            EnvironmentFailed: if an environment raises, or gives what is no observation or reward.
        """
        config = self._config
        refuse_non_finite(weights.arrays, env_steps)
        player = Player(config.env, self._registry, seed=config.seed, name="eval")
        played = player.play(self._policy(weights), range(config.eval.episodes), is_cancelled=is_cancelled)
        if played is None:
            return None
        every_steps = config.eval.every_steps
        if every_steps is not None:
            self._next = (env_steps // every_steps + 1) * every_steps
        self._evaluated = env_steps, weights.version
        return EvaluationResult.of(played, run_dir=str(self._run_dir), env_steps=env_steps, seed=config.seed)

    def state_dict(self) -> dict[str, Any]:
        """Return when the next one is due, and which weights were evaluated last."""
        return {"every_steps": self._config.eval.every_steps, "next": self._next, "evaluated": self._evaluated}

    def load_state_dict(self, state: Mapping[str, Any], env_steps: int) -> None:
        """Take what `state_dict` gave, at so many env steps; another `eval.every_steps` makes its own times."""
        every_steps = self._config.eval.every_steps
        self._evaluated = state["evaluated"]
        if every_steps == state["every_steps"]:
            self._next = state["next"]
        elif every_steps is not None:
            self._next = (env_steps // every_steps + 1) * every_steps

    def _policy(self, weights: Weights) -> Policy:
        program, config = self._program, self._config
        if self._acting is None:
            self._acting = Acting(
                program.policy, weights.arrays, lambda: make_backend(config.backend, config.device, self._registry)
            )
        else:
            self._acting.load(weights.arrays)
        return Policy(program.policy, program.spaces, self._acting)
