"""What the algorithms of Rheos share: workers, learners, sources, stages, distributions, advantages."""
