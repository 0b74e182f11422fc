"""HTTP requests of code, which the daemon sends as calls of the server `network`."""


def requests(servers):
    return Requests(servers)


class Requests:
    """The requests of an execution, by `fetch` or by HTTP libraries."""

    hint = "only HTTP requests to hosts that the operator allows: use fetch(url)"

    def __init__(self, servers):
        self._servers = servers

    def names(self):
        return {"fetch": self.fetch}

    def fetch(self, url, method="GET", headers=None, json=None, data=None, timeout=30):
        """Send an HTTP request to a host that the operator allows, and return the response.

        json is sent as JSON; data is text, bytes or a form. The response has status, ok, headers, text,
        content, json() and raise_for_status(). Libraries such as urllib.request work too.
        """
        from . import client

        return client.fetch(self._servers, url, method, headers, json, data, timeout)

    def connect(self):
        from . import client

        return client.Connection(self._servers)

    async def send_httpx(self, module, request):
        from . import client

        return await client.send_httpx(self._servers, module, request)
