"""What the Python servers ask, in the wire types that both toolkits take, and what they say to the answers."""

from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

FORM = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"]},
        "cups": {"type": "integer", "default": 1},
    },
    "required": ["size"],
}


def which_coffee(name: str) -> str:
    return f"Which coffee for {name}?"


def haiku_about(topic: str) -> list[SamplingMessage]:
    return [SamplingMessage(role="user", content=TextContent(type="text", text=f"A haiku about {topic}"))]


def order_request(name: str) -> InputRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=which_coffee(name), requested_schema=FORM))


def haiku_request(topic: str) -> InputRequest:
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=haiku_about(topic), max_tokens=50))


def roots_request() -> InputRequest:
    return ListRootsRequest()


def ordered(result: ElicitResult) -> str:
    return f"accept {result.content['cups']} {result.content['size']}" if result.content else result.action


def written(result: CreateMessageResult) -> str:
    assert isinstance(result.content, TextContent)
    return result.content.text


def listed(result: ListRootsResult) -> str:
    return " ".join(str(root.uri) for root in result.roots)
