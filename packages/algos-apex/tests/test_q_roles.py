"""What settings become where the actors of the family are described."""

from __future__ import annotations

import pytest

from rheos.errors import ConfigError
from rheos_apex.config import ApexConfig, DQNConfig
from rheos_apex.roles import apex_roles, dqn_roles


def test_shards_share_what_there_is_room_for(context):
    config = ApexConfig(replay_shards=3, replay_steps=1_000, learning_starts=100)

    shards = apex_roles(context(config)).shards

    assert ["replay-0", "replay-1", "replay-2"] == [shard.name for shard in shards]
    assert "0 of 34 transitions" == shards[1].factory().sample().reason


def test_importance_goes_where_it_is_sent_by_the_end_of_the_run(context):
    config = DQNConfig(prioritized=True, final_importance_exponent=1.0, replay_shards=2)

    shard = dqn_roles(context(config, total_env_steps=1_000)).shards[0].factory()

    assert [0.4, 0.7, 1.0] == [pytest.approx(shard._importance(steps)) for steps in (0, 250, 500)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"final_importance_exponent": 1.0}, r"algo\.final_importance_exponent: got 1.*set stop\.env_steps"),
        ({"value_min": 3.0, "value_max": 3.0}, r"algo\.value_min: got 3, expected less than algo\.value_max=3"),
        ({"learning_starts": 11, "replay_steps": 10}, r"algo\.learning_starts: got 11, expected at most .*replay"),
    ],
    ids=["importance", "atoms", "starts"],
)
def test_settings_that_contradict_each_other_are_refused_before_anything_starts(context, settings, message):
    for config, roles in ((DQNConfig(**settings), dqn_roles), (ApexConfig(**settings), apex_roles)):
        with pytest.raises(ConfigError, match=message):
            roles(context(config))
