"""An authorization server made with Authlib, on Starlette: the second of two that share no code with each other."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from authlib.oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, JsonPayload, JsonRequest, OAuth2Request, TokenMixin, grants
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oauth2.rfc9207 import IssuerParameter
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

LASTS = 3600  # seconds
PERSON = SimpleNamespace(get_user_id=lambda: "grace")


class Client(ClientMixin):
    """As it has registered."""

    def __init__(self, info: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.client_id: str = info["client_id"]
        self.secret: str = info["client_secret"]
        self.metadata = metadata

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return str(self.metadata["redirect_uris"][0])

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or "read"

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.metadata["redirect_uris"]

    def check_client_secret(self, client_secret: str) -> bool:
        return secrets.compare_digest(self.secret, client_secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return bool(method == self.metadata.get("token_endpoint_auth_method", "client_secret_basic"))

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


class Code(SimpleNamespace):
    """An authorization code."""

    def get_redirect_uri(self) -> str:
        return str(self.redirect_uri)

    def get_scope(self) -> str:
        return str(self.scope)


class Refreshable(TokenMixin):
    """What a refresh token stands for."""

    def __init__(self, client_id: str, scope: str) -> None:
        self.client_id, self.scope = client_id, scope

    def check_client(self, client: Any) -> bool:
        return bool(self.client_id == client.get_client_id())

    def get_scope(self) -> str:
        return self.scope


class Payload(BasicOAuth2Payload):
    """The parameters, of which `resource` may be there twice."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(dict(pairs))
        self._datalist = {name: [one for key, one in pairs if key == name] for name, _ in pairs}


class Asked(OAuth2Request):
    """A request, as Authlib takes it."""

    def __init__(self, request: Request, form: list[tuple[str, str]]) -> None:
        super().__init__(request.method, str(request.url), headers=request.headers)
        self.payload = Payload(parse_qsl(request.url.query) + form)
        self._form, self._args = dict(form), dict(parse_qsl(request.url.query))

    @property
    def form(self) -> dict[str, str]:
        return self._form

    @property
    def args(self) -> dict[str, str]:
        return self._args


class Metadata(JsonPayload):
    """What a client says of itself."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    @property
    def data(self) -> dict[str, Any]:
        return self._data


class Registering(JsonRequest):
    """A registration, as Authlib takes it."""

    def __init__(self, request: Request, data: dict[str, Any]) -> None:
        super().__init__(request.method, str(request.url), request.headers)
        self.payload = Metadata(data)


class Answer(Response):
    """An answer, of which Authlib looks at the location."""

    @property
    def location(self) -> str | None:
        return self.headers.get("location")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["location"] = value


class Memory(AuthorizationServer):
    """Authlib's server, with everything in memory."""

    def __init__(self) -> None:
        super().__init__(scopes_supported=["read"])
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Code] = {}
        self.refreshable: dict[str, Refreshable] = {}

    def query_client(self, client_id: str) -> Client | None:
        return self.clients.get(client_id)

    def save_token(self, token: dict[str, Any], request: OAuth2Request) -> None:
        if "refresh_token" in token:
            self.refreshable[token["refresh_token"]] = Refreshable(request.client.get_client_id(), token["scope"])

    def create_oauth2_request(self, request: OAuth2Request) -> OAuth2Request:
        return request

    def create_json_request(self, request: JsonRequest) -> JsonRequest:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        if isinstance(body, dict):
            return JSONResponse(body, status, {**dict(headers), "content-type": "application/json"})
        return Answer(body, status, dict(headers))

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        return None


class CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic", "client_secret_post"]

    def save_authorization_code(self, code: str, request: OAuth2Request) -> None:
        data = request.payload.data
        self.server.codes[code] = Code(
            client_id=request.client.get_client_id(),
            redirect_uri=data.get("redirect_uri"),
            scope=request.scope or "read",
            code_challenge=data["code_challenge"],
            code_challenge_method=data["code_challenge_method"],
        )

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        found = self.server.codes.get(code)
        return found if found is not None and found.client_id == client.client_id else None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        self.server.codes = {text: one for text, one in self.server.codes.items() if one is not authorization_code}

    def authenticate_user(self, authorization_code: Code) -> Any:
        return PERSON


class RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = CodeGrant.TOKEN_ENDPOINT_AUTH_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Refreshable | None:
        return self.server.refreshable.get(refresh_token)

    def authenticate_user(self, refresh_token: Refreshable) -> Any:
        return PERSON

    def revoke_old_credential(self, refresh_token: Refreshable) -> None:
        kept = {text: one for text, one in self.server.refreshable.items() if one is not refresh_token}
        self.server.refreshable = kept


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, request: JsonRequest) -> Any:
        return "anybody"

    def get_server_metadata(self) -> dict[str, Any]:
        return {"scopes_supported": ["read"]}

    def save_client(self, client_info: dict[str, Any], client_metadata: dict[str, Any], request: JsonRequest) -> Client:
        client = self.server.clients[client_info["client_id"]] = Client(client_info, client_metadata)
        return client


class AuthlibServer:
    """An ASGI app. audience: of its tokens, for Authlib knows no resource indicators."""

    def __init__(self, issuer: str, audience: str, lasts: int = LASTS) -> None:
        self.issuer, self.audience, self.lasts = issuer, audience, lasts
        self.keys = KeySet([RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}, auto_kid=True)])
        self.server = Memory()
        self.server.register_token_generator("default", self._generator())
        self.server.register_grant(CodeGrant, [CodeChallenge(required=True)])
        self.server.register_grant(RefreshGrant)
        self.server.register_endpoint(Registration)
        self.server.register_extension(self._names_itself())
        self.app = Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/jwks.json", self._jwks),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    def _generator(self) -> JWTBearerTokenGenerator:
        class Generator(JWTBearerTokenGenerator):
            def get_jwks(generator) -> Any:  # noqa: N805
                return self.keys

            def get_audiences(generator, client: Any, user: Any, scope: Any) -> str:  # noqa: N805
                return self.audience

        return Generator(
            self.issuer,
            refresh_token_generator=lambda **_: secrets.token_urlsafe(),
            expires_generator=lambda client, grant_type: self.lasts,
        )

    def _names_itself(self) -> Any:
        issuer = self.issuer

        class Named(IssuerParameter):
            def get_issuer(self) -> str:
                return issuer

        return lambda server: Named()(server)

    async def _metadata(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "jwks_uri": f"{self.issuer}/jwks.json",
                "scopes_supported": ["read"],
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_methods_supported": CodeGrant.TOKEN_ENDPOINT_AUTH_METHODS,
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _jwks(self, request: Request) -> Response:
        return JSONResponse(self.keys.as_dict(private=False))

    async def _register(self, request: Request) -> Response:
        answer: Response = self.server.create_endpoint_response(
            Registration.ENDPOINT_NAME, Registering(request, await request.json())
        )
        return answer

    async def _authorize(self, request: Request) -> Response:
        asked = Asked(request, [])
        grant = self.server.get_consent_grant(asked, PERSON)
        answer: Response = self.server.create_authorization_response(asked, PERSON, grant)
        return answer

    async def _token(self, request: Request) -> Response:
        form = parse_qsl((await request.body()).decode())
        answer: Response = self.server.create_token_response(Asked(request, form))
        return answer
