"""Listen, decode, decide, handle, answer: the Kafka protocol over the log."""

from frazil.broker.server import Broker
from frazil.broker.services import BrokerDeps
from frazil.broker.settings import BrokerSettings

__all__ = ["Broker", "BrokerDeps", "BrokerSettings"]
