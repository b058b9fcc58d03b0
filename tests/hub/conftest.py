"""The loopback hub's own tests use its fixture."""

from tests.hub.fixture import hub

__all__ = ["hub"]
