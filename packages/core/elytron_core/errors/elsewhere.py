"""Errors of models, gateways and servers."""

from elytron_core.errors.root import ElytronError


class ModelError(ElytronError):
    key = "model_error"


class ModelUnavailable(ModelError):
    key = "model_unavailable"
    retryable = True


class ModelRefused(ModelError):
    key = "model_refused"


class Unreachable(ElytronError):
    key = "unreachable"
    retryable = True


class GatewayRefused(ElytronError):
    key = "gateway_refused"
    told = ("status",)

    def __init__(self, message: str, /, *, status: int) -> None:
        super().__init__(message)
        self.status = status
