"""The scheduler: running nodes that are polled, one queue on which a run waits, and the flow that users hold."""
