"""An authorization server for development and tests, not for production."""

from ..serving import serving
from .assertions import ID_JAG, JWT_BEARER
from .clients import RegisteredClient
from .misbehaviour import Misbehaviour
from .server import AuthServer
from .web import OAuthError

__all__ = ["ID_JAG", "JWT_BEARER", "AuthServer", "Misbehaviour", "OAuthError", "RegisteredClient", "serving"]
