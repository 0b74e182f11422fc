"""Logs in with the official Python SDK: python_login.py URL MODE [ISSUER] writes as JSON what came of it.

The client asks for what the server says it needs: first for a token, then for one with more scopes. Without an
issuer it registers where the server says, as interactive clients do.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Storage:
    def __init__(self):
        self.scopes = []

    async def get_tokens(self):
        return None

    async def set_tokens(self, tokens):
        self.scopes.append(tokens.scope)

    async def get_client_info(self):
        return None

    async def set_client_info(self, info):
        pass


def text(result):
    return json.loads(result.content[0].text)


async def main(url, mode, issuer=None):
    storage, came = Storage(), {}
    if issuer:
        login = ClientCredentialsOAuthProvider(url, storage, "customer_A", "secret", "client_secret_post", issuer=issuer)
    else:
        login = OAuthClientProvider(url, OAuthClientMetadata(redirect_uris=["http://127.0.0.1:1/callback"]), storage)
    async with httpx2.AsyncClient(auth=login, timeout=120) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            came["result"] = text(await client.call_tool("execute_code", {"code": "6 * 7"}))["result"]
            came["wrote"] = text(await client.call_tool("write_workspace_file", {"filename": "a.txt", "content": "a"}))["success"]
            came["again"] = text(await client.call_tool("execute_code", {"code": "open('a.txt').read()"}))["result"]
    came["scopes"] = storage.scopes
    print(json.dumps(came))


def reasons(e):
    if isinstance(e, BaseExceptionGroup):
        return [r for part in e.exceptions for r in reasons(part)]
    return [str(e)]


try:
    asyncio.run(main(*sys.argv[1:]))
except* (OAuthFlowError, httpx2.HTTPError) as e:
    print(json.dumps({"failed": sorted(set(reasons(e)))}))
