"""Train PPO on CartPole from Python, then act with what it learned: python examples/01_ppo_cartpole.py [env steps]."""

from __future__ import annotations

import sys

import gymnasium

import rheos


def main(env_steps: int) -> None:
    """Train until CartPole is solved, at most `env_steps`, and play one episode with the trained policy."""
    run = rheos.train("ppo", env="CartPole-v1", seed=1, stop={"episode_return": 475, "env_steps": env_steps})
    print(f"trained {run.env_steps} env steps, see {run.run_dir}")

    policy = rheos.load_policy(run.run_dir)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    episode_return, is_over = 0.0, False
    while not is_over:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
        episode_return += float(reward)
        is_over = terminated or truncated
    env.close()
    print(f"return of one episode: {episode_return:.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
